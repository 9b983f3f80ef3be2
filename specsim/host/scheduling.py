"""What a scheduler decides in a turn: how much of a prompt runs, whose result is late, and whether to wait for one."""

from collections.abc import Sequence


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
