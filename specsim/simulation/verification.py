"""Scheduled verification in an engine: how many drafts of a batch an iteration verifies, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require
from specsim.config import SURVIVAL_EPS
from specsim.counts import count_draft_nodes
from specsim.host.budget import Costs, verify_token_budget
from specsim.rejection import Reason, check_range
from specsim.simulation.requests import Request


class VerifyMode(StrEnum):
    """What an iteration does with the drafts that it does not admit (semantics Q.1.5)."""

    STATIC = "static"
    CAP_ACCEPT = "cap-accept"
    COMPACT = "compact"


@dataclass(frozen=True)
class VerifyLimits:
    """What an iteration may verify.

    Parameters
    ----------
    mode : VerifyMode
        Whether the target runs over all rows, or over those of admitted drafts alone.
    budget : int or None
        Drafts of the whole batch, roots not counted; None for all of them.
    """

    mode: VerifyMode
    budget: int | None


def limits_by_name(limits: VerifyLimits | None) -> dict[str, VerifyLimits]:
    """Return limits as the argument of a worker's ``decode``, which a worker without schedules does not take."""
    return {} if limits is None else {"limits": limits}


class Budget(Protocol):
    """Chooses how many drafts of a batch are verified."""

    def __call__(self, survivals: Sequence[Sequence[float]]) -> int | None:
        """Return a number of drafts, or None for all of them.

        Parameters
        ----------
        survivals : sequence of sequence of float
            Of each request of the batch, the survivals of the drafts of an earlier iteration; ones where there is none.
        """


@dataclass(frozen=True)
class FixedBudget:
    """The same number of drafts in every iteration.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: fewer than none.
    """

    num_drafts: int

    def __post_init__(self) -> None:
        check_range(Reason.COUNT_OUT_OF_RANGE, "verify budget", self.num_drafts, "it counts drafts", 0)

    def __call__(self, survivals: Sequence[Sequence[float]]) -> int:
        """Return the number."""
        return self.num_drafts


@dataclass(frozen=True)
class PricedBudget:
    """As many drafts as yield most tokens in the time of a step (``verify_token_budget``)."""

    costs: Costs | None
    survival_eps: float = SURVIVAL_EPS

    def __call__(self, survivals: Sequence[Sequence[float]]) -> int:
        """Return the number that is best by the survivals of an earlier step."""
        flat = [one for request in survivals for one in request]
        return verify_token_budget(flat, len(survivals), self.costs, survival_eps=self.survival_eps)


@dataclass(frozen=True)
class Verification:
    """How the iterations of an engine verify: a mode, and the budget of each iteration."""

    mode: VerifyMode
    budget: Budget


@dataclass(frozen=True)
class Verified:
    """What an iteration admitted, on the host.

    ``verify_lens`` int32 [request] has the rows of each request, root included; ``confidence`` float32 [request, draft]
    what they were chosen by; ``trim`` int32 [request] the accepted drafts that the cut lost, as far as that is known.
    """

    verify_lens: NDArray[np.int32]
    confidence: NDArray[np.float32]
    trim: NDArray[np.int32]

    def check(self, limits: VerifyLimits, num_accepted_drafts: Sequence[int]) -> None:
        """Raise AssertionError unless the budget holds, and no request accepts a draft that was not verified."""
        num_verified = self.num_verified_drafts()
        require(min(num_verified, default=0) >= 0, "verified rows without a root", num_verified, "at least the root")
        if limits.budget is not None:
            require(sum(num_verified) <= limits.budget, "verified drafts", sum(num_verified), f"<= {limits.budget}")
        is_possible = all(one <= most for one, most in zip(num_accepted_drafts, num_verified, strict=True))
        require(is_possible, "num_accepted_drafts", [*num_accepted_drafts], f"at most the verified {num_verified}")

    def num_verified_drafts(self) -> list[int]:
        """Return how many drafts of each request were verified."""
        return [int(count_draft_nodes(length)) for length in self.verify_lens.tolist()]

    def survivals(self) -> NDArray[np.float32]:
        """Return float32 [request, draft], the probability that a draft and all before it are accepted."""
        return np.multiply.accumulate(self.confidence, axis=1, dtype=np.float32)


@dataclass(frozen=True)
class VerifiedCounters:
    """What the iterations of an engine verified, all together.

    Parameters
    ----------
    num_drafts : int
        Drafts that there were.
    num_verified, num_accepted_drafts : int
        Those of them that were verified, and accepted.
    num_trimmed : int
        Those that were not kept because of the cut, although the target accepts them; known where all rows are run.
    """

    num_drafts: int = 0
    num_verified: int = 0
    num_accepted_drafts: int = 0
    num_trimmed: int = 0

    def count(
        self, verified: Verified, num_drafts: Sequence[int], num_accepted_drafts: Sequence[int]
    ) -> "VerifiedCounters":
        """Count an iteration, one entry a request."""
        return replace(
            self,
            num_drafts=self.num_drafts + sum(num_drafts),
            num_verified=self.num_verified + sum(verified.num_verified_drafts()),
            num_accepted_drafts=self.num_accepted_drafts + sum(num_accepted_drafts),
            num_trimmed=self.num_trimmed + int(verified.trim.sum()),
        )

    def public(self) -> dict[str, Any]:
        """Return the figures under the names that users read."""
        return {
            "num_drafts": self.num_drafts,
            "num_verified_drafts": self.num_verified,
            "num_accepted_drafts": self.num_accepted_drafts,
            "num_cut_drafts": self.num_drafts - self.num_verified,
            "num_trimmed_drafts": self.num_trimmed,
        }


class VerifyBudgets:
    """The budgets of an engine's iterations, each from survivals of results that have come before its launch.

    Survivals belong to a request and to how often it was retracted: one that starts anew counts with ones.

    Notes
    -----
    Source: semantics Q.1.4.
    """

    def __init__(self, verification: Verification, num_drafts: int) -> None:
        self._verification = verification
        self._unknown = (1.0,) * num_drafts
        self._survivals: dict[int, tuple[int, tuple[float, ...]]] = {}

    def limits(self, requests: Sequence[Request]) -> VerifyLimits:
        """Return what the next iteration of some requests may verify."""
        return VerifyLimits(self._verification.mode, self._verification.budget([*map(self._of, requests)]))

    def note(self, requests: Sequence[Request], num_retractions: Sequence[int], verified: Verified) -> None:
        """Keep the survivals of a result, for budgets to come."""
        for request, count, own in zip(requests, num_retractions, verified.survivals().tolist(), strict=True):
            self._survivals[request.request_id] = count, tuple(own)
            if request.finish is not None:
                del self._survivals[request.request_id]

    def _of(self, request: Request) -> tuple[float, ...]:
        num_retractions, survivals = self._survivals.get(request.request_id, (-1, ()))
        return survivals if num_retractions == request.num_retractions else self._unknown
