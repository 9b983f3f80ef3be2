"""What becomes of drafts in whole runs: a caller asks for the counts, and the engines that run inside add to them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class DraftCounts:
    """What engines counted, all iterations and requests together, the root of a tree not among them.

    Parameters
    ----------
    requests : int
        Requests that engines were given.
    proposed : int
        Drafts that there were.
    verified : int
        Those of them that the target ran over or, where acceptance is cut, that the cut left.
    accepted : int
        Those of them that were kept.
    """

    requests: int = 0
    proposed: int = 0
    verified: int = 0
    accepted: int = 0

    def public(self) -> dict[str, int]:
        """Return the counts by name, none without requests; rejected are the verified ones that were not kept.

        Those that were not verified were cut.
        """
        if not self.requests:
            return {}
        return {
            "proposed": self.proposed,
            "verified": self.verified,
            "accepted": self.accepted,
            "rejected": self.verified - self.accepted,
            "cut": self.proposed - self.verified,
        }


def is_vacuous(num_runs: int, drafts: Mapping[str, int]) -> bool:
    """Return whether nothing was drafted in so many runs, by the counts of their engines, if any had a request."""
    return num_runs > 0 and bool(drafts) and not drafts["proposed"]


_COUNTS: ContextVar[DraftCounts | None] = ContextVar("drafts", default=None)


@contextmanager
def counting_drafts() -> Iterator[DraftCounts]:
    """Count the drafts of the engines that run inside."""
    counts = DraftCounts()
    token = _COUNTS.set(counts)
    try:
        yield counts
    finally:
        _COUNTS.reset(token)


def count_request() -> None:
    """Count a request that an engine is given; without a caller who counts, nothing happens."""
    counts = _COUNTS.get()
    if counts is not None:
        counts.requests += 1


def count_drafts(
    num_proposed_drafts: Sequence[int], num_verified_drafts: Sequence[int], num_accepted_drafts: Sequence[int]
) -> None:
    """Count an iteration, one entry a request, likewise."""
    counts = _COUNTS.get()
    if counts is not None:
        counts.proposed += sum(num_proposed_drafts)
        counts.verified += sum(num_verified_drafts)
        counts.accepted += sum(num_accepted_drafts)
