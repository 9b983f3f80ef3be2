"""The built-in algorithms, their rows of flags, and the workers that they create (semantics G.1)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from specsim.algorithms.flags import Flags, Predicates
from specsim.algorithms.plugin import CustomSpecAlgo, Factory, WorkerRequest, refuse_overlap
from specsim.rejection import Reason, SpecRejection

PLUGINS: dict[str, CustomSpecAlgo] = {}
"""Every registered plug-in by its name in capitals."""


class SpeculativeAlgorithm(Predicates, StrEnum):
    """The built-in algorithms, each with its row of flags (semantics G.1)."""

    DFLASH = "DFLASH", Flags(is_dflash=True, supports_target_verify_for_draft=True)
    EAGLE = "EAGLE", Flags(is_eagle=True, supports_spec_v2=True)
    EAGLE3 = "EAGLE3", Flags(is_eagle=True, is_eagle3=True, supports_spec_v2=True)
    FROZEN_KV_MTP = "FROZEN_KV_MTP", Flags(is_eagle=True, is_frozen_kv_mtp=True)
    STANDALONE = "STANDALONE", Flags(is_standalone=True, supports_spec_v2=True)
    NGRAM = "NGRAM", Flags(is_ngram=True)
    NONE = "NONE", Flags(is_none=True)

    _value_: str

    def __new__(cls, name: str, flags: Flags) -> Self:
        """Make the member of a name, which is its value, with its row."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.flags = flags
        return member

    @classmethod
    def from_string(cls, name: str | None) -> "Algorithm":
        """Return the member or the registered plug-in of a name, in any case; None is NONE.

        Raises
        ------
        SpecRejection
            UNKNOWN_NAME.
        """
        return find_algorithm(name, PLUGINS)

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
            return self.value.lower() if request.version == "v1" else f"{self.value.lower()}_{request.version}"
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
                Reason.UNKNOWN_NAME, "worker", name, f"one of {sorted(factories)}", "only these have a factory"
            )
        return factories[name](request)


WITH_CHECKED_SIZES = tuple(one for one in SpeculativeAlgorithm if one.supports_spec_v2())
"""The algorithms whose drafts have the sizes that a user gives, which the rules check (semantics F.4)."""

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
    raise SpecRejection(Reason.UNKNOWN_NAME, "algorithm", repr(name), f"one of {known}", "it is not registered")


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
