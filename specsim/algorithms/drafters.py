"""The drafters: one record each of all that differs between what drafts, whatever runs it.

Rules, command line, soak, matrix, padded runs and pages read these records. A record names its draft side and imports
none, so that no layer is needed to read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from specsim.algorithms.builtin import SpeculativeAlgorithm
from specsim.algorithms.plugin import WorkerRequest

VERSIONS = ("v1", "v2")


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
    """

    algorithm: SpeculativeAlgorithm
    side: str
    is_multi_layer: bool = False
    reported: str = ""

    def worker_name(self, is_v1: bool) -> str:
        """Return the name of the worker of a kind."""
        request = WorkerRequest(VERSIONS[not is_v1], is_overlapped=False, is_multi_layer=self.is_multi_layer)
        return self.algorithm.worker_name(request)

    def side_of(self, layer: str) -> str:
        """Return the name of its draft side in a layer, as in an import."""
        return f"specsim.{layer}.worker.sides.{self.side}"

    def reported_name(self, layer: str, is_v1: bool) -> str:
        """Return what reports call its worker: the kind is named where the rules do not choose it."""
        is_usual = is_v1 != self.algorithm.supports_spec_v2()
        return "-".join(part for part in (layer, self.reported, "" if is_usual else VERSIONS[not is_v1]) if part)


_STEPWISE = "stepwise.StepwiseSide"

DRAFTERS: Mapping[str, Drafter] = MappingProxyType(
    {
        "EAGLE": Drafter(SpeculativeAlgorithm.EAGLE, _STEPWISE),
        "MULTI_LAYER": Drafter(
            SpeculativeAlgorithm.EAGLE, "layered.LayeredSide", is_multi_layer=True, reported="multi-layer"
        ),
        "EAGLE3": Drafter(SpeculativeAlgorithm.EAGLE3, _STEPWISE),
        "STANDALONE": Drafter(SpeculativeAlgorithm.STANDALONE, _STEPWISE),
        "FROZEN_KV_MTP": Drafter(
            SpeculativeAlgorithm.FROZEN_KV_MTP, "frozen_kv_mtp.FrozenSide", reported="frozen-kv-mtp"
        ),
        "DFLASH": Drafter(SpeculativeAlgorithm.DFLASH, "dflash.DflashSide", reported="dflash"),
        "NGRAM": Drafter(SpeculativeAlgorithm.NGRAM, "ngram.NgramSide", reported="ngram"),
    }
)
"""By the names that cells and setups have for them; soak and matrix go through them in this order."""


def _workers() -> Mapping[str, tuple[Drafter, bool]]:
    found: dict[str, tuple[Drafter, bool]] = {}
    for one in DRAFTERS.values():
        for is_v1 in (True, False):
            found.setdefault(one.worker_name(is_v1), (one, is_v1))
    return MappingProxyType(found)


WORKERS = _workers()
"""The drafter of each worker, and whether it is one of V1; of EAGLE and EAGLE3, which share workers, EAGLE."""
