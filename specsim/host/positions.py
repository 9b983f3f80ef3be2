"""Acceptance by position: what verifies of any width proposed and accepted, level by level.

A verify proposes drafts on a number of levels, in a chain one a level; both may differ from request to request and from
step to step, and may be 0. Position 0 is the level right after the root. Public names are those that vLLM prints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specsim.counts import count_tokens
from specsim.rejection import Reason, SpecRejection, check_length


@dataclass(frozen=True)
class PositionCounters:
    """What all verifies together proposed and accepted.

    Parameters
    ----------
    num_proposing : int
        Verifies that proposed a draft.
    num_proposed_drafts, num_accepted_drafts : int
        Drafts, all positions together.
    accepted : tuple of int
        For each position, the verifies that accepted a draft there.
    tried : tuple of int
        For each position, the verifies that proposed a draft there and accepted one at every position before.
    """

    num_proposing: int = 0
    num_proposed_drafts: int = 0
    num_accepted_drafts: int = 0
    accepted: tuple[int, ...] = ()
    tried: tuple[int, ...] = ()

    def public(self) -> dict[str, Any]:
        """Return the figures under the names that users read.

        Rates by position are over all verifies that proposed anything; conditional ones are over those that came so
        far, so that narrow verifies do not lower them. What has nothing to divide by is 0, but for the mean acceptance
        length: it is one more than such a share, and 1.

        Notes
        -----
        Source: semantics H.5.
        """
        num = self.num_proposing
        return {
            "num_drafts": num,
            "num_draft_tokens": self.num_proposed_drafts,
            "num_accepted_tokens": self.num_accepted_drafts,
            "num_accepted_tokens_per_pos": list(self.accepted),
            "mean_acceptance_length": count_tokens(_share(self.num_accepted_drafts, num), 1),
            "draft_acceptance_rate": _share(self.num_accepted_drafts, self.num_proposed_drafts),
            "per_position_acceptance_rate": [_share(count, num) for count in self.accepted],
            "conditional_acceptance_rate": [_share(*one) for one in zip(self.accepted, self.tried, strict=True)],
        }


def count_positions(
    counters: PositionCounters,
    num_proposed_drafts: Sequence[int],
    num_levels: Sequence[int],
    num_accepted_drafts: Sequence[int],
) -> PositionCounters:
    """Count the verifies of one batch, one entry a request; one that proposed nothing leaves no trace.

    Parameters
    ----------
    num_proposed_drafts : sequence of int
        Nodes of each request's tree but the root.
    num_levels : sequence of int
        Levels that they lie on: the most that can be accepted.
    num_accepted_drafts : sequence of int
        How many of them were.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the three do not have one entry a request; COUNT_OUT_OF_RANGE: a negative count, more
        levels than drafts, drafts on no level, or more accepted than there are levels.

    Notes
    -----
    Source: semantics H.5.
    """
    num_requests = len(num_accepted_drafts)
    for what, given in (("num_proposed_drafts", num_proposed_drafts), ("num_levels", num_levels)):
        check_length(f"len({what})", len(given), num_requests)
    rows = list(zip(num_proposed_drafts, num_levels, num_accepted_drafts, strict=True))
    for drafts, levels, taken in rows:
        _check_row(drafts, levels, taken)
    width = max(len(counters.accepted), max(num_levels, default=0))
    accepted, tried = (list(values) + [0] * (width - len(values)) for values in (counters.accepted, counters.tried))
    for _, levels, taken in rows:
        for position in range(levels):
            accepted[position] += position < taken
            tried[position] += position <= taken
    return PositionCounters(
        counters.num_proposing + sum(drafts > 0 for drafts in num_proposed_drafts),
        counters.num_proposed_drafts + sum(num_proposed_drafts),
        counters.num_accepted_drafts + sum(num_accepted_drafts),
        tuple(accepted),
        tuple(tried),
    )


def _check_row(drafts: int, levels: int, taken: int) -> None:
    """Raise SpecRejection unless a verify can have proposed and accepted so much."""
    for what, got, least, most, because in (
        ("num_proposed_drafts", drafts, 0, None, "it counts drafts"),
        ("num_levels", levels, min(drafts, 1), drafts, "every level has a draft, and every draft a level"),
        ("num_accepted_drafts", taken, 0, levels, "a level gives at most one draft"),
    ):
        if got < least or (most is not None and got > most):
            expected = f"at least {least}" if most is None else f"{least} to {most}"
            raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, what, got, expected, because)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
