"""How many drafts a batch may verify: the budget at which a step yields most tokens in its time (semantics Q.1.4)."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from specsim.config import SURVIVAL_EPS
from specsim.rejection import Reason, check_range, contradiction

LEAST_TIME = 1e-6
"""Least time of a verify that a table of captured sizes gives, in its own unit."""


def _check_table(what: str, probes: Sequence[int], values: Sequence[float]) -> None:
    """Raise SpecRejection unless a table has a value for each of its probes, which ascend."""
    if not probes or len(probes) != len(values):
        raise contradiction(f"{what} values", len(values), f"one for each of {len(probes)} probes", "it is a table")
    if probes[0] < 0 or any(left >= right for left, right in pairwise(probes)):
        raise contradiction(f"{what} probes", tuple(probes), "ascending whole numbers from 0", "they are looked up")
    if not all(0 <= value < math.inf for value in values):
        raise contradiction(f"{what} values", tuple(values), "finite numbers of at least 0", "they were measured")


@dataclass(frozen=True)
class StepRates:
    """Steps per second by rows of the forward; between two probes the rate of the smaller one holds.

    Parameters
    ----------
    probes : tuple of int
        Rows, ascending. A table of one probe was never measured, and gives no budget.
    rates : tuple of float
        Steps per second at each.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """

    probes: tuple[int, ...]
    rates: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_table("rate", self.probes, self.rates)

    def yields(self, num_tokens: float, num_requests: int, num_rows: int) -> float:
        """Return tokens per second, given those of a step."""
        del num_requests
        return num_tokens * self.rates[max(bisect_right(self.probes, num_rows) - 1, 0)]


@dataclass(frozen=True)
class StepTimes:
    """Time of a step as a sum: of itself, of its requests, and of its rows; linear between probes, clamped outside.

    Parameters
    ----------
    bias : float
        Time of a step that does nothing, above 0.
    request_probes, request_times : tuple
        Requests, ascending, and the time that they add.
    row_probes, row_times : tuple
        Rows, ascending, and the time that they add.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """

    bias: float
    request_probes: tuple[int, ...]
    request_times: tuple[float, ...]
    row_probes: tuple[int, ...]
    row_times: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 0 < self.bias < math.inf:
            raise contradiction("bias", self.bias, "a number above 0", "tokens are divided by the time")
        _check_table("request", self.request_probes, self.request_times)
        _check_table("row", self.row_probes, self.row_times)

    def yields(self, num_tokens: float, num_requests: int, num_rows: int) -> float:
        """Return tokens per second, given those of a step."""
        time = self.bias + _between(self.request_probes, self.request_times, num_requests)
        return num_tokens / (time + _between(self.row_probes, self.row_times, num_rows))


@dataclass(frozen=True)
class CapturedTimes:
    """Time of a draft by requests and of a verify by rows, each padded to the next captured size.

    Parameters
    ----------
    draft_probes, draft_times : tuple
        Requests, ascending, and the time of their draft.
    verify_probes, verify_times : tuple
        Rows, ascending, and the time of their verify.
    largest_captured : int
        Up to here sizes are padded; above, times are linear between probes, and continue by the last slope.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """

    draft_probes: tuple[int, ...]
    draft_times: tuple[float, ...]
    verify_probes: tuple[int, ...]
    verify_times: tuple[float, ...]
    largest_captured: int

    def __post_init__(self) -> None:
        _check_table("draft", self.draft_probes, self.draft_times)
        _check_table("verify", self.verify_probes, self.verify_times)

    def draft_time(self, num_requests: int) -> float:
        """Return the time of the draft of so many requests."""
        return max(_padded(self.draft_probes, self.draft_times, self.largest_captured, num_requests), 0.0)

    def verify_time(self, num_rows: int) -> float:
        """Return the time of a verify of so many rows."""
        return max(_padded(self.verify_probes, self.verify_times, self.largest_captured, num_rows), LEAST_TIME)

    def yields(self, num_tokens: float, num_requests: int, num_rows: int) -> float:
        """Return tokens per unit of time, given those of a step."""
        return num_tokens / (self.draft_time(num_requests) + self.verify_time(num_rows))


def _between(probes: Sequence[int], values: Sequence[float], size: int) -> float:
    """Return the value at a size, linear between probes and clamped outside."""
    place = bisect_right(probes, size)
    if place == 0 or place == len(probes):
        return values[max(place - 1, 0)]
    share = (size - probes[place - 1]) / (probes[place] - probes[place - 1])
    return values[place - 1] + share * (values[place] - values[place - 1])


def _padded(probes: Sequence[int], times: Sequence[float], largest_captured: int, size: int) -> float:
    """Return the time of the next captured size, or of a size above all of them; times never fall with sizes."""
    rising = list(accumulate(times, max))
    place = bisect_left(probes, size)
    if place == len(probes):
        slope = 0.0 if len(probes) < 2 else (rising[-1] - rising[-2]) / (probes[-1] - probes[-2])
        return rising[-1] + slope * (size - probes[-1])
    is_padded = size <= largest_captured or place == 0 or probes[place - 1] <= largest_captured
    return rising[place] if is_padded else _between(probes, rising, size)


@dataclass(frozen=True)
class ForcedShare:
    """A fixed share of all drafts, whatever they are worth.

    Parameters
    ----------
    share : float
        Share of the drafts of a batch, 0 to 1.
    num_drafts : int
        Drafts of a request.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """

    share: float
    num_drafts: int

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise contradiction("share", self.share, "0 to 1", "it is a share of the drafts")
        if self.num_drafts < 0:
            raise contradiction("num_drafts", self.num_drafts, "at least 0", "it counts drafts")


class Priced(Protocol):
    """Costs of another form: what a step yields, however that is known."""

    def yields(self, num_tokens: float, num_requests: int, num_rows: int) -> float:
        """Return tokens per unit of time, given those of a step."""


Costs = StepRates | StepTimes | CapturedTimes | ForcedShare | Priced


def verify_token_budget(
    survivals: Sequence[float],
    num_requests: int,
    costs: Costs | None,
    num_rows: int | None = None,
    max_budget: int | None = None,
    survival_eps: float = SURVIVAL_EPS,
) -> int:
    """Return how many drafts to verify in the whole batch, so that a step yields most tokens in its time.

    Parameters
    ----------
    survivals : sequence of float
        Probability that each draft of the batch is accepted, of an *earlier* step; a request that had none counts with
        ones. With those of this step the budget reads the drafts that it admits.
    num_requests : int
        Requests that output a token in this step, whatever is accepted.
    costs : StepRates, StepTimes, CapturedTimes, ForcedShare, Priced or None
        What a step costs; without it, or with rates of a single probe, every draft that can survive is verified.
    num_rows : int or None
        Rows of the forward that are no drafts; the roots if None.
    max_budget : int or None
        Drafts that the forward has room for.
    survival_eps : float
        Least survival of a draft that counts.

    Returns
    -------
    budget : int
        The smallest budget that is best.

    Raises
    ------
    SpecRejection
        PROBABILITY_OUT_OF_RANGE, NAN_SCORE: a survival is none; SCALAR_OUT_OF_RANGE: a size is negative.

    Notes
    -----
    Source: semantics Q.1.4.
    """
    _check_sizes(num_requests=num_requests, num_rows=num_rows, max_budget=max_budget)
    for place, survival in enumerate(survivals):
        reason = Reason.NAN_SCORE if math.isnan(survival) else Reason.PROBABILITY_OUT_OF_RANGE
        check_range(reason, f"survivals[{place}]", survival, "it is a probability", 0, 1)
    if isinstance(costs, ForcedShare):
        budget = math.floor(costs.share * num_requests * costs.num_drafts)
        return budget if max_budget is None else min(budget, max_budget)
    best_first = sorted((survival for survival in survivals if survival >= survival_eps), reverse=True)
    best_first = best_first[:max_budget]
    if costs is None or (isinstance(costs, StepRates) and len(costs.probes) == 1):
        return len(best_first)
    own_rows = num_requests if num_rows is None else num_rows
    best, budget, num_tokens = -math.inf, 0, float(num_requests)
    for count, survival in enumerate([0.0, *best_first]):
        num_tokens += survival
        yielded = costs.yields(num_tokens, num_requests, own_rows + count)
        if yielded > best:
            best, budget = yielded, count
    return budget


def verify_graph_tier(num_requests: int, budget: int | None, num_draft_tokens: int, min_verify_len: int = 1) -> int:
    """Return the rows that a batch needs of a captured graph; -1 without a budget.

    Parameters
    ----------
    num_requests : int
        Requests of the batch; an idle rank has none.
    budget : int or None
        Drafts to verify; None where no survivals are known.
    num_draft_tokens : int
        Nodes of a chain, the root included.
    min_verify_len : int
        Rows of a request that cost nothing.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: a size is negative.

    Notes
    -----
    Source: semantics Q.1.4.
    """
    _check_sizes(num_requests=num_requests, budget=budget, num_draft_tokens=num_draft_tokens)
    if budget is None:
        return -1
    return min(num_requests * max(min_verify_len, 1) + budget, num_requests * num_draft_tokens)


def agree_on_tier(tiers: Sequence[int]) -> int | None:
    """Return the rows of the graph that all ranks run, or None if one of them has no budget: then each is uniform.

    Notes
    -----
    Source: semantics Q.1.4.
    """
    return None if min(tiers, default=0) < 0 else max(tiers, default=0)


def align_verify_budget(
    budget: int, num_requests: int, num_draft_tokens: int, captured: Sequence[int], min_verify_len: int = 1
) -> int:
    """Return a budget that fills the smallest captured graph that holds it; the same one if no graph does.

    Parameters
    ----------
    budget : int
        Drafts to verify.
    num_requests : int
        Requests of the batch.
    num_draft_tokens : int
        Nodes of a chain, the root included.
    captured : sequence of int
        Rows of the captured graphs, ascending.
    min_verify_len : int
        Rows of a request that cost nothing.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE: a size is negative.

    Notes
    -----
    Source: semantics Q.1.4.
    """
    tier = verify_graph_tier(num_requests, budget, num_draft_tokens, min_verify_len)
    place = bisect_left(captured, tier)
    if place == len(captured):
        return budget
    rows = min(captured[place], num_requests * num_draft_tokens)
    return max(budget, rows - num_requests * max(min_verify_len, 1))


def _check_sizes(**sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None:
            check_range(Reason.SCALAR_OUT_OF_RANGE, name, size, "it counts", 0)
