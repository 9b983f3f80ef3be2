"""Figures of speculation: counters of an interval, counters of a request, and the rates that users read.

A rate counts drafts and never the bonus token; a length counts tokens, the bonus token included. Counters carry drafts
and verifies, and tokens are derived from both. Everything here is a pure function from counters to counters or figures.
Public names of figures are the strings that engines print.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from specsim.counts import count_draft_nodes, count_tokens
from specsim.rejection import Reason, SpecRejection, check_length, check_range

DECODE_LOG_INTERVAL = 40
"""Decode batches between two reports, where no one says otherwise."""


@dataclass(frozen=True)
class Rates:
    """What an interval or a run comes to: tokens of a verify, and accepted of proposed drafts."""

    tokens_per_verify: float
    accept_rate: float


@dataclass(frozen=True)
class SpecCounters:
    """What a scheduler has counted; the first three start anew after every report, which adds them to the totals.

    Verifies and accepted drafts are those of live and finished-but-in-flight requests alike.
    """

    num_batches: int = 0
    num_accepted_drafts: int = 0
    num_verifies: int = 0
    total_accepted_drafts: int = 0
    total_verifies: int = 0

    @property
    def num_accepted_tokens(self) -> int:
        """Tokens of the open interval."""
        return int(count_tokens(self.num_accepted_drafts, self.num_verifies))

    @property
    def total_accepted_tokens(self) -> int:
        """Tokens of the intervals that were reported."""
        return int(count_tokens(self.total_accepted_drafts, self.total_verifies))

    @property
    def realtime_tokens(self) -> int:
        """Tokens of every batch so far, reported or not."""
        return self.total_accepted_tokens + self.num_accepted_tokens


@dataclass(frozen=True)
class IntervalStats:
    """One report of the scheduler."""

    num_batches: int
    num_verifies: int
    num_accepted_drafts: int
    num_generated_tokens: int
    rates: Rates

    def public(self) -> dict[str, float | int]:
        """Return the figures under the names that users read."""
        return {
            "num_batches": self.num_batches,
            "spec_verify_ct": self.num_verifies,
            "spec_accepted_drafts": self.num_accepted_drafts,
            "num_generated_tokens": self.num_generated_tokens,
            "spec_accept_length": self.rates.tokens_per_verify,
            "spec_accept_rate": self.rates.accept_rate,
        }


@dataclass(frozen=True)
class RequestCounters:
    """What one request has counted; ``histogram[k]`` is the number of its verifies that accepted ``k`` drafts."""

    num_verifies: int = 0
    num_accepted_drafts: int = 0
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True)
class BatchCounts:
    """What one decode batch counted: the batch's own figures, and the counters of its requests after it."""

    num_requests: int
    num_accepted_drafts: int
    requests: tuple[RequestCounters, ...]


def drafts_per_round(num_draft_tokens: int | None, num_steps: int | None) -> int:
    """Return how many drafts one verify proposes: the nodes but the root, the steps where no size is set, else 0.

    Notes
    -----
    Source: semantics H.1.
    """
    if num_draft_tokens is not None:
        return int(count_draft_nodes(num_draft_tokens))
    return 0 if num_steps is None else num_steps


def interval_rates(num_accepted_drafts: int, num_verifies: int, num_drafts_per_round: int) -> Rates:
    """Return tokens of a verify and accepted of proposed drafts; both are 0 without a verify.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a negative count, or drafts that no verify accepted.

    Notes
    -----
    Source: semantics H.1.
    """
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_verifies", num_verifies, "it counts verifies", 0)
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_accepted_drafts", num_accepted_drafts, "it counts drafts", 0)
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_drafts_per_round", num_drafts_per_round, "it counts drafts", 0)
    if num_verifies == 0:
        if num_accepted_drafts:
            raise _out_of_range("num_accepted_drafts", num_accepted_drafts, "0", "only a verify accepts drafts")
        return Rates(0.0, 0.0)
    num_proposed = num_verifies * num_drafts_per_round
    return Rates(
        tokens_per_verify=count_tokens(num_accepted_drafts, num_verifies) / num_verifies,
        accept_rate=num_accepted_drafts / num_proposed if num_proposed else 0.0,
    )


def update_spec_metrics(counters: SpecCounters, num_requests: int, num_accepted_drafts: int) -> SpecCounters:
    """Count one decode batch: every request of it verified once, and all of them accepted so many drafts together.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a negative count, or drafts in a batch without requests.

    Notes
    -----
    Source: semantics H.1.
    """
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_requests", num_requests, "it counts requests", 0)
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_accepted_drafts", num_accepted_drafts, "it counts drafts", 0)
    if num_accepted_drafts and not num_requests:
        raise _out_of_range("num_accepted_drafts", num_accepted_drafts, "0", "the batch has no requests")
    return replace(
        counters,
        num_batches=counters.num_batches + 1,
        num_accepted_drafts=counters.num_accepted_drafts + num_accepted_drafts,
        num_verifies=counters.num_verifies + num_requests,
    )


def report_decode_stats(
    counters: SpecCounters, num_drafts_per_round: int, decode_log_interval: int = DECODE_LOG_INTERVAL
) -> tuple[SpecCounters, IntervalStats | None]:
    """Close the interval if it has its batches: return the counters to go on with, and the report or None.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: an interval without batches.

    Notes
    -----
    Source: semantics H.1.
    """
    check_range(
        Reason.COUNT_OUT_OF_RANGE, "decode_log_interval", decode_log_interval, "an interval has at least one batch", 1
    )
    if counters.num_batches < decode_log_interval:
        return counters, None
    stats = IntervalStats(
        num_batches=counters.num_batches,
        num_verifies=counters.num_verifies,
        num_accepted_drafts=counters.num_accepted_drafts,
        num_generated_tokens=counters.num_accepted_tokens,
        rates=interval_rates(counters.num_accepted_drafts, counters.num_verifies, num_drafts_per_round),
    )
    after = SpecCounters(
        total_accepted_drafts=counters.total_accepted_drafts + counters.num_accepted_drafts,
        total_verifies=counters.total_verifies + counters.num_verifies,
    )
    return after, stats


def count_verify(counters: RequestCounters, num_accepted_drafts: int) -> RequestCounters:
    """Count one verify of a request; the histogram grows on demand.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a negative count.

    Notes
    -----
    Source: semantics H.3.
    """
    check_range(Reason.COUNT_OUT_OF_RANGE, "num_accepted_drafts", num_accepted_drafts, "it counts drafts", 0)
    histogram = list(counters.histogram)
    while len(histogram) <= num_accepted_drafts:
        histogram.append(0)
    histogram[num_accepted_drafts] += 1
    return RequestCounters(
        num_verifies=counters.num_verifies + 1,
        num_accepted_drafts=counters.num_accepted_drafts + num_accepted_drafts,
        histogram=tuple(histogram),
    )


def count_batch(
    counters: Sequence[RequestCounters], num_accepted_drafts: Sequence[int], is_zombie: Sequence[bool]
) -> BatchCounts:
    """Count one decode batch, one entry a request; a zombie ended before and is still in flight.

    The batch counts zombies, because they were verified; their own counters no longer move.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the three do not have one entry a request; COUNT_OUT_OF_RANGE: a negative count.

    Notes
    -----
    Source: semantics H.1, I.3.
    """
    for what, got in (("num_accepted_drafts", num_accepted_drafts), ("is_zombie", is_zombie)):
        check_length(f"len({what})", len(got), len(counters))
    rows = zip(counters, num_accepted_drafts, is_zombie, strict=True)
    return BatchCounts(
        num_requests=len(counters),
        num_accepted_drafts=sum(num_accepted_drafts),
        requests=tuple(before if zombie else count_verify(before, drafts) for before, drafts, zombie in rows),
    )


def meta_info(counters: RequestCounters, num_completion_tokens: int, num_drafts_per_round: int) -> dict[str, Any]:
    """Return what an engine tells the user of one request.

    Nothing without a verify; the histogram alone if no verify proposed a draft. ``spec_accept_length`` divides the
    tokens that the user received, which include the one of the prefill and end at the stop.

    Notes
    -----
    Source: semantics H.3.
    """
    if counters.num_verifies == 0:
        return {}
    histogram = list(counters.histogram)
    reported: dict[str, Any] = {"spec_correct_drafts_histogram": histogram, "spec_accept_histogram": list(histogram)}
    num_proposed = counters.num_verifies * num_drafts_per_round
    if num_proposed > 0:
        reported |= {
            "spec_accept_rate": counters.num_accepted_drafts / num_proposed,
            "spec_accept_length": num_completion_tokens / counters.num_verifies,
            "spec_accepted_drafts": counters.num_accepted_drafts,
            "spec_proposed_drafts": num_proposed,
            "spec_verify_ct": counters.num_verifies,
        }
    return reported


def _out_of_range(what: str, got: int, expected: str, because: str) -> SpecRejection:
    return SpecRejection(Reason.COUNT_OUT_OF_RANGE, what, got, expected, because)
