"""What a scheduler decides: how much of a prompt runs, how far ahead rows are allocated, who gives way, who is late."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.rejection import Reason, SpecRejection


@dataclass(frozen=True)
class Retractions:
    """Who gives way before a decode.

    ``num_kept`` requests at the front of the batch stay. ``is_last_aborted`` says that the one that is left finds no
    room even alone.
    """

    num_kept: int
    is_last_aborted: bool = False


def chunk_length(num_left: int, budget: int | None, page_size: int) -> int:
    """Return how many positions of a prompt run in one turn.

    Parameters
    ----------
    num_left : int
        Positions that have not run.
    budget : int or None
        Positions that the turn has left; None for any number.
    page_size : int
        Slots of a page.

    Returns
    -------
    length : int
        Everything, or whole pages; 0 where the turn has no room for a page.

    Notes
    -----
    Source: semantics I.8.
    """
    if budget is None or num_left <= budget:
        return num_left
    return budget // page_size * page_size


def decode_end(num_committed: int, num_allocated: int, reserve: int, page_size: int) -> int:
    """Return how many positions a V2 request has allocated before its next decode is launched.

    The result of the iteration before may still be out: two iterations' worth past the committed length hold whatever
    it accepted and what the next one drafts. What is allocated never shrinks.

    Notes
    -----
    Source: semantics I.2.
    """
    pages = -(-(num_committed + reserve) // page_size)
    return max(num_allocated, pages * page_size)


def plan_retractions(num_free: int, needed: Sequence[int], owned: Sequence[int]) -> Retractions:
    """Return how many requests of a batch can decode; the others give way, the last of the batch first.

    Parameters
    ----------
    num_free : int
        Slots that nobody owns.
    needed, owned : sequence of int
        Slots that each request needs for its next decode, and those that it gives back when it is retracted.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: not one entry a request.

    Notes
    -----
    Source: semantics I.4, I.5.
    """
    if len(needed) != len(owned):
        raise SpecRejection(
            Reason.INCONSISTENT_LENGTHS,
            what="len(owned)",
            got=len(owned),
            expected=str(len(needed)),
            because="there is one entry a request",
        )
    num_kept = len(needed)
    while num_kept > 1 and num_free < sum(needed[:num_kept]):
        num_kept -= 1
        num_free += owned[num_kept]
    return Retractions(num_kept, num_kept == 1 and num_free < needed[0])


def is_late(num_retractions_at_launch: int, num_retractions: int, has_finished: bool) -> bool:
    """Return whether a result no longer concerns its request, which ended or was retracted since the launch.

    Notes
    -----
    A retracted request may run again by then, so that only the number of its retractions tells. Source: semantics I.3,
    I.4.
    """
    return has_finished or num_retractions != num_retractions_at_launch


def waits_for_result(is_constrained: Sequence[bool]) -> bool:
    """Return whether a turn waits for the result of the one before it.

    Parameters
    ----------
    is_constrained : sequence of bool
        Whether the host changes the logits of each request that may take part, by what was output last.

    Notes
    -----
    Source: semantics J.2.
    """
    return any(is_constrained)
