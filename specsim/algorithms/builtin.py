"""The built-in algorithms and their predicates (semantics G.1)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from specsim.algorithms.plugin import CustomSpecAlgo, Factory, WorkerRequest, refuse_overlap
from specsim.rejection import Reason, SpecRejection

PLUGINS: dict[str, CustomSpecAlgo] = {}
"""Every registered plug-in by its name in capitals."""


class SpeculativeAlgorithm(StrEnum):
    """The built-in algorithms (semantics G.1)."""

    DFLASH = "DFLASH"
    EAGLE = "EAGLE"
    EAGLE3 = "EAGLE3"
    FROZEN_KV_MTP = "FROZEN_KV_MTP"
    STANDALONE = "STANDALONE"
    NGRAM = "NGRAM"
    NONE = "NONE"

    @classmethod
    def from_string(cls, name: str | None) -> "Algorithm":
        """Return the member or the registered plug-in of a name, in any case; None is NONE.

        Raises
        ------
        SpecRejection
            UNKNOWN_NAME.
        """
        return find_algorithm(name, PLUGINS)

    def is_none(self) -> bool:
        """Return whether nothing is drafted."""
        return self is SpeculativeAlgorithm.NONE

    def is_speculative(self) -> bool:
        """Return whether anything is drafted."""
        return not self.is_none()

    def is_some(self) -> bool:
        """Return whether anything is drafted, as ``is_speculative`` does."""
        return not self.is_none()

    def is_eagle(self) -> bool:
        """Return whether the draft model reads the target's hidden states."""
        return self in (SpeculativeAlgorithm.EAGLE, SpeculativeAlgorithm.EAGLE3, SpeculativeAlgorithm.FROZEN_KV_MTP)

    def is_eagle3(self) -> bool:
        """Return whether it is EAGLE3."""
        return self is SpeculativeAlgorithm.EAGLE3

    def is_frozen_kv_mtp(self) -> bool:
        """Return whether it is FROZEN_KV_MTP."""
        return self is SpeculativeAlgorithm.FROZEN_KV_MTP

    def is_dflash(self) -> bool:
        """Return whether it is DFLASH."""
        return self is SpeculativeAlgorithm.DFLASH

    def is_standalone(self) -> bool:
        """Return whether it is STANDALONE."""
        return self is SpeculativeAlgorithm.STANDALONE

    def is_ngram(self) -> bool:
        """Return whether it is NGRAM."""
        return self is SpeculativeAlgorithm.NGRAM

    def supports_spec_v2(self) -> bool:
        """Return whether the worker V2 can run it."""
        return (self.is_eagle() and not self.is_frozen_kv_mtp()) or self.is_standalone()

    def supports_target_verify_for_draft(self) -> bool:
        """Return whether its draft worker may run a target verify."""
        return self.is_dflash()

    def get_num_tokens_per_bs_for_target_verify(self, num_draft_tokens: int, is_draft_worker: bool) -> int:
        """Return how many tokens a request brings to a target verify (semantics G.4)."""
        return num_draft_tokens

    def worker_name(self, request: WorkerRequest) -> str:
        """Return the name under which the worker's factory is looked up.

        Raises
        ------
        AssertionError
            NONE has no worker.
        SpecRejection
            BAD_CONFIGURATION: overlap is on and the algorithm has no overlapped worker.
        """
        if self.is_none():
            raise AssertionError("algorithm = NONE, but should be one that drafts, because only those have workers")
        if not self.supports_spec_v2():
            # NOTE: FROZEN_KV_MTP ends here, before the branch of EAGLE, whose predicate it shares.
            refuse_overlap(self.value, request)
            return self.value.lower()
        if self.is_standalone():
            return f"standalone_{request.version}"
        return f"{'multi_layer_' if request.is_multi_layer else ''}eagle_{request.version}"

    def create_worker(self, request: WorkerRequest, factories: Mapping[str, Factory]) -> Any:
        """Return the worker class that the factory of the right name makes of the request.

        Raises
        ------
        AssertionError
            NONE has no worker.
        SpecRejection
            BAD_CONFIGURATION: overlap is on and the algorithm has no overlapped worker; UNKNOWN_NAME: there is no
            factory of that name.
        """
        name = self.worker_name(request)
        if name not in factories:
            raise SpecRejection(
                Reason.UNKNOWN_NAME,
                what="worker",
                got=name,
                expected=f"one of {sorted(factories)}",
                because="only these have a factory",
            )
        return factories[name](request)


Algorithm = SpeculativeAlgorithm | CustomSpecAlgo


def find_algorithm(name: str | None, plugins: Mapping[str, CustomSpecAlgo]) -> Algorithm:
    """Return the built-in algorithm or the plug-in of a name, in any case; None is NONE.

    Raises
    ------
    SpecRejection
        UNKNOWN_NAME.

    Notes
    -----
    Source: semantics G.1.
    """
    if name is None:
        return SpeculativeAlgorithm.NONE
    capitals = name.upper()
    if capitals in SpeculativeAlgorithm.__members__:
        return SpeculativeAlgorithm[capitals]
    if capitals in plugins:
        return plugins[capitals]
    known = ", ".join([*SpeculativeAlgorithm.__members__, *plugins])
    raise SpecRejection(
        Reason.UNKNOWN_NAME,
        what="algorithm",
        got=repr(name),
        expected=f"one of {known}",
        because="it is not registered",
    )


def target_verify_width(algorithm: Algorithm, num_draft_tokens: int, is_draft_worker: bool) -> int:
    """Return how many tokens a request brings to a target verify of the target's or of the draft's worker.

    Raises
    ------
    RuntimeError
        A draft worker would run a target verify, and the algorithm does not support that.

    Notes
    -----
    Source: semantics G.4.
    """
    if is_draft_worker and not algorithm.supports_target_verify_for_draft():
        raise RuntimeError(f"{algorithm.name} draft worker runs a target verify, but its algorithm supports none")
    return algorithm.get_num_tokens_per_bs_for_target_verify(num_draft_tokens, is_draft_worker)
