"""The drafters: one record each of all that differs between what drafts, whatever runs it.

Rules, command line, soak, matrix, padded runs and pages read these records. A record names its draft side and imports
none, so that no layer is needed to read it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from specsim.algorithms.builtin import SpeculativeAlgorithm
from specsim.algorithms.plugin import WorkerRequest
from specsim.config import SpecConfig
from specsim.discovery import import_class

VERSIONS = ("v1", "v2")
LOOPS = {
    "reference": ("v1.ReferenceWorkerV1", "v2.ReferenceWorker"),
    "gpu": ("v1.GpuWorkerV1", "v2.GpuWorker"),
}
"""The loops of each layer, V1 first."""

_CHAIN_OF_THREE = (1, 3, 4)


@dataclass(frozen=True)
class Drafter:
    """What drafts: an algorithm, in the form in which a worker runs it.

    Parameters
    ----------
    algorithm : SpeculativeAlgorithm
        The algorithm, whose flags the rules read; of a drafter of a user, the one whose rules apply to it.
    side : str
        Its draft side as in an import, with ``{layer}`` where each layer has one of its own.
    sides : mapping
        Of a drafter of a user, in the place of ``side``: what makes its draft side, by layer. That is a class, or its
        name as in an import.
    name : str
        What a user calls a drafter of theirs; empty for those of the table.
    is_multi_layer : bool
        Whether every draft step has a layer of its own.
    reported : str
        What reports call its workers, after the layer; empty for the drafter that gave the loops their names.
    summary : str
        What it drafts with, as ``list algorithms`` prints it.
    default_sizes : tuple of int
        Branching factor, depth and nodes of a simulation where nothing is said; no depth where drafts have any.
    parameters : str
        Class of what its worker takes in the place of sizes, as in an import; empty where it takes sizes. Its
        ``of_sizes`` makes them of a branching factor and a number of nodes.
    draft_source : str
        What its draft model consumes, a name of ``DraftSource``.
    reads_all_layers : bool
        Whether its draft model reads hidden states of several layers of the target.
    reads_target_kv : bool
        Whether its draft model reads the target's KV.
    has_draft_window : bool
        Whether its draft may attend to a window of positions alone.
    has_draft_path : bool
        Whether its draft model is loaded from a path of its own.
    reads_texts : bool
        Whether drafts come from texts alone. Of few tokens some text goes on as the target does, and some does not.
    has_memory : bool
        Whether the drafts of a request depend on requests before it and beside it.
    has_known_tags : bool
        Whether the entries of its draft are those of EAGLE's, whose tags are known; others are compared with those of a
        fresh prefill.
    cuts_by_company : bool
        Whether it depends on the requests beside how many tokens a top-k keeps of those that are as likely (semantics
        A.14b).
    adapts : bool
        Whether the number of steps may change while it runs.
    has_any_size : bool
        Whether its drafts have the sizes of EAGLE's, and another engine may go on with other sizes.
    has_any_pool : bool
        Whether its entries may lie in every kind of pool that EAGLE's may.
    extends : bool
        Whether its draft catches up with a verify by a forward, which V1 runs for other ranks too.
    reads_states : bool
        Whether it drafts where the target has recurrent state.
    """

    algorithm: SpeculativeAlgorithm = SpeculativeAlgorithm.EAGLE
    side: str = ""
    sides: Mapping[str, Any] = field(default_factory=dict, hash=False)
    name: str = ""
    is_multi_layer: bool = False
    reported: str = ""
    summary: str = ""
    default_sizes: tuple[int, int, int] = _CHAIN_OF_THREE
    parameters: str = ""
    draft_source: str = "HIDDEN"
    reads_all_layers: bool = False
    reads_target_kv: bool = False
    has_draft_window: bool = False
    has_draft_path: bool = False
    reads_texts: bool = False
    has_memory: bool = False
    has_known_tags: bool = False
    cuts_by_company: bool = False
    adapts: bool = False
    has_any_size: bool = False
    has_any_pool: bool = False
    extends: bool = False
    reads_states: bool = True

    @property
    def has_v2(self) -> bool:
        """Whether the rules choose V2 for it where they can."""
        return bool(self.name) or self.algorithm.supports_spec_v2()

    def worker_name(self, is_v1: bool) -> str:
        """Return the name of the worker of a kind."""
        if self.name:
            return f"{self.name}_{VERSIONS[not is_v1]}"
        request = WorkerRequest(VERSIONS[not is_v1], is_overlapped=False, is_multi_layer=self.is_multi_layer)
        return self.algorithm.worker_name(request)

    def side_in(self, layer: str) -> Any:
        """Return what makes its draft side in a layer: a class, or the name of one as in an import."""
        return self.sides[layer] if self.sides else self.side.format(layer=layer)

    def loop(self, layer: str, is_v1: bool) -> Callable[..., Any]:
        """Return what makes its worker: the loop of a layer, with its side; both are imported by then."""
        side = self.side_in(layer)
        make_side = import_class(side) if isinstance(side, str) else side
        loop = import_class(f"specsim.{layer}.worker.{LOOPS[layer][not is_v1]}")
        return partial(loop, make_side=make_side, name=self.reported_name(layer, is_v1))

    def drafting(self, topk: int, num_steps: int, num_draft_tokens: int) -> Any:
        """Return what its worker takes first: sizes, or its parameters."""
        if not self.parameters:
            return SpecConfig(topk, num_steps, num_draft_tokens)
        parameters: Any = import_class(self.parameters)
        return parameters.of_sizes(topk, num_draft_tokens)

    def reported_name(self, layer: str, is_v1: bool) -> str:
        """Return what reports call its worker: the kind is named where the rules do not choose it."""
        is_usual = is_v1 != self.has_v2
        return "-".join(
            part for part in (layer, self.reported or self.name, "" if is_usual else VERSIONS[not is_v1]) if part
        )


_STEPWISE = "specsim.simulation.draft_sides.stepwise.StepwiseSide"

DRAFTERS: dict[str, Drafter] = {
    "EAGLE": Drafter(
        SpeculativeAlgorithm.EAGLE,
        _STEPWISE,
        summary="A draft layer over the target's hidden states, in trees or chains.",
        default_sizes=(4, 5, 16),
        has_known_tags=True,
        adapts=True,
        has_any_size=True,
        has_any_pool=True,
        extends=True,
    ),
    "MULTI_LAYER": Drafter(
        SpeculativeAlgorithm.EAGLE,
        "specsim.simulation.draft_sides.layered.LayeredSide",
        is_multi_layer=True,
        reported="multi-layer",
        draft_source="LAYERS",
        extends=True,
    ),
    "EAGLE3": Drafter(
        SpeculativeAlgorithm.EAGLE3,
        _STEPWISE,
        summary="As EAGLE, over hidden states of several layers of the target.",
        reads_all_layers=True,
        has_draft_window=True,
        has_draft_path=True,
        has_known_tags=True,
        adapts=True,
        has_any_size=True,
        has_any_pool=True,
        extends=True,
    ),
    "STANDALONE": Drafter(
        SpeculativeAlgorithm.STANDALONE,
        _STEPWISE,
        summary="A draft model of its own, which reads tokens alone.",
        draft_source="TOKENS",
        has_draft_path=True,
        has_known_tags=True,
        has_any_size=True,
        has_any_pool=True,
        extends=True,
    ),
    "FROZEN_KV_MTP": Drafter(
        SpeculativeAlgorithm.FROZEN_KV_MTP,
        "specsim.simulation.draft_sides.frozen_kv_mtp.FrozenSide",
        reported="frozen-kv-mtp",
        summary="A draft layer that reads the target's KV and writes none.",
        reads_target_kv=True,
        has_draft_path=True,
        has_any_size=True,
        reads_states=False,
    ),
    "DFLASH": Drafter(
        SpeculativeAlgorithm.DFLASH,
        "specsim.{layer}.worker.sides.dflash.DflashSide",
        reported="dflash",
        summary="A whole block of drafts in one forward.",
        default_sizes=(1, 1, 16),
        parameters="specsim.host.dflash.DflashParameters",
        reads_all_layers=True,
        has_draft_window=True,
        has_draft_path=True,
        cuts_by_company=True,
    ),
    "NGRAM": Drafter(
        SpeculativeAlgorithm.NGRAM,
        "specsim.{layer}.worker.sides.ngram.NgramSide",
        reported="ngram",
        summary="Texts that were seen before; no draft model.",
        default_sizes=(10, 0, 12),
        parameters="specsim.host.ngram.NgramParameters",
        reads_texts=True,
        has_memory=True,
        has_known_tags=True,
    ),
}
"""By the names that cells and setups have for them; soak and matrix go through them in this order."""


def _workers() -> Mapping[str, tuple[Drafter, bool]]:
    found: dict[str, tuple[Drafter, bool]] = {}
    for one in DRAFTERS.values():
        for is_v1 in (True, False):
            found.setdefault(one.worker_name(is_v1), (one, is_v1))
    return MappingProxyType(found)


WORKERS = _workers()
"""The drafter of each worker, and whether it is one of V1; of EAGLE and EAGLE3, which share workers, EAGLE."""
