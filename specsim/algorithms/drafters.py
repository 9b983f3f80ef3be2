"""The drafters: one record each of all that differs between what drafts, whatever runs it.

Rules, command line, soak, matrix, padded runs and pages read these records. A record names its draft side and imports
none, so that no layer is needed to read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from specsim.algorithms.builtin import SpeculativeAlgorithm
from specsim.algorithms.plugin import WorkerRequest
from specsim.config import SpecConfig
from specsim.discovery import import_class

VERSIONS = ("v1", "v2")
_CHAIN_OF_THREE = (1, 3, 4)


@dataclass(frozen=True)
class Drafter:
    """What drafts: an algorithm, in the form in which a worker runs it.

    Parameters
    ----------
    algorithm : SpeculativeAlgorithm
        The algorithm, whose flags the rules read.
    side : str
        Module and class of its draft side in ``worker.sides`` of each layer.
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
    """

    algorithm: SpeculativeAlgorithm
    side: str
    is_multi_layer: bool = False
    reported: str = ""
    summary: str = ""
    default_sizes: tuple[int, int, int] = _CHAIN_OF_THREE
    parameters: str = ""
    draft_source: str = "HIDDEN"
    reads_all_layers: bool = False
    reads_target_kv: bool = False

    def worker_name(self, is_v1: bool) -> str:
        """Return the name of the worker of a kind."""
        request = WorkerRequest(VERSIONS[not is_v1], is_overlapped=False, is_multi_layer=self.is_multi_layer)
        return self.algorithm.worker_name(request)

    def side_of(self, layer: str) -> str:
        """Return the name of its draft side in a layer, as in an import."""
        return f"specsim.{layer}.worker.sides.{self.side}"

    def drafting(self, topk: int, num_steps: int, num_draft_tokens: int) -> Any:
        """Return what its worker takes first: sizes, or its parameters."""
        if not self.parameters:
            return SpecConfig(topk, num_steps, num_draft_tokens)
        parameters: Any = import_class(self.parameters)
        return parameters.of_sizes(topk, num_draft_tokens)

    def reported_name(self, layer: str, is_v1: bool) -> str:
        """Return what reports call its worker: the kind is named where the rules do not choose it."""
        is_usual = is_v1 != self.algorithm.supports_spec_v2()
        return "-".join(part for part in (layer, self.reported, "" if is_usual else VERSIONS[not is_v1]) if part)


_STEPWISE = "stepwise.StepwiseSide"

DRAFTERS: dict[str, Drafter] = {
    "EAGLE": Drafter(
        SpeculativeAlgorithm.EAGLE,
        _STEPWISE,
        summary="A draft layer over the target's hidden states, in trees or chains.",
        default_sizes=(4, 5, 16),
    ),
    "MULTI_LAYER": Drafter(
        SpeculativeAlgorithm.EAGLE,
        "layered.LayeredSide",
        is_multi_layer=True,
        reported="multi-layer",
        draft_source="LAYERS",
    ),
    "EAGLE3": Drafter(
        SpeculativeAlgorithm.EAGLE3,
        _STEPWISE,
        summary="As EAGLE, over hidden states of several layers of the target.",
        reads_all_layers=True,
    ),
    "STANDALONE": Drafter(
        SpeculativeAlgorithm.STANDALONE,
        _STEPWISE,
        summary="A draft model of its own, which reads tokens alone.",
        draft_source="TOKENS",
    ),
    "FROZEN_KV_MTP": Drafter(
        SpeculativeAlgorithm.FROZEN_KV_MTP,
        "frozen_kv_mtp.FrozenSide",
        reported="frozen-kv-mtp",
        summary="A draft layer that reads the target's KV and writes none.",
        reads_target_kv=True,
    ),
    "DFLASH": Drafter(
        SpeculativeAlgorithm.DFLASH,
        "dflash.DflashSide",
        reported="dflash",
        summary="A whole block of drafts in one forward.",
        default_sizes=(1, 1, 16),
        parameters="specsim.host.dflash.DflashParameters",
        reads_all_layers=True,
    ),
    "NGRAM": Drafter(
        SpeculativeAlgorithm.NGRAM,
        "ngram.NgramSide",
        reported="ngram",
        summary="Texts that were seen before; no draft model.",
        default_sizes=(10, 0, 12),
        parameters="specsim.host.ngram.NgramParameters",
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
