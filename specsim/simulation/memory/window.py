"""Which positions a sliding window still reaches, and what happens to the SWA slots of the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from specsim.counts import ceil_to, floor_to
from specsim.simulation.memory.holding import Holding, Memory, SlotRange
from specsim.simulation.memory.protocols import Match

CountUnseen = Callable[[int, int, int], int]
"""As ``num_behind_window``."""


def num_behind_window(next_position: int, window: int, page_size: int) -> int:
    """Return how many positions from the front of a text no token from a position on can see, in whole pages.

    Parameters
    ----------
    next_position : int
        The first position that any later forward computes: nothing before it is ever rolled back.
    window : int
        Positions that a token sees, its own included.
    page_size : int
        Slots of a page, which goes as a whole.

    Notes
    -----
    Source: semantics I.10.
    """
    return floor_to(max(0, next_position - window + 1), page_size)


def evict_behind_window(
    memory: Memory, holding: Holding, next_position: int, *, num_behind_window: CountUnseen = num_behind_window
) -> list[int]:
    """Give back the SWA slots of a request that no later forward reads; return the full slots that lost theirs.

    What the prefix cache has is left alone: others may start there. Called before a chunk with its start, and before an
    iteration with what is committed, which under overlap is what the iteration on its way starts from, or less.

    Notes
    -----
    Source: semantics I.10, J.1, J.2.
    """
    if memory.swa is None:
        return []
    end = num_behind_window(next_position, memory.window, memory.page_size)
    slots = holding.slots[max(holding.num_evicted, holding.books.num_protected) : end]
    if slots:
        memory.swa.evict(slots)
    holding.num_evicted = max(holding.num_evicted, end)
    return slots


def reachable_match(memory: Memory, found: Match) -> int:
    """Return how much of a match can be used: a front whose last window has SWA slots.

    A request that goes on after a front sees the window before it, which may be lost where a request that had gone
    further left the front.
    """
    if memory.swa is None:
        return len(found.slots)
    has_swa = [slot > 0 for slot in memory.swa.swa_slots(found.slots)]
    length, num_good = 0, 0
    for end, is_there in enumerate(has_swa, start=1):
        num_good = num_good + 1 if is_there else 0
        if end % memory.page_size == 0 and num_good >= min(end, memory.window - 1):
            length = end
    return length


def save_window(memory: Memory, own: Sequence[int], cached: Sequence[int]) -> None:
    """Give the SWA slots of duplicates to the cached slots that are kept in their place and have lost theirs.

    Parameters
    ----------
    own, cached : sequence of int
        Slots of the same positions, of a request and of the prefix cache.
    """
    if memory.swa is None:
        return
    pairs = zip(own, cached, memory.swa.swa_slots(own), memory.swa.swa_slots(cached), strict=True)
    saved = [(slot, to) for slot, to, has, has_already in pairs if has and not has_already]
    if saved:
        memory.swa.hand_over([slot for slot, _ in saved], [to for _, to in saved])


def with_swa_slots(memory: Memory, ranges: Sequence[SlotRange]) -> list[SlotRange]:
    """Return ranges with the SWA slots that their slots have now."""
    if memory.swa is None:
        return list(ranges)
    return [replace(given, swa_slots=memory.swa.swa_slots((*given.slots, *given.remapped))) for given in ranges]


def most_swa_slots(num_new: int, window: int, page_size: int) -> int:
    """Return the SWA slots that a request can hold that computes so many positions at once, or has them ahead.

    Parameters
    ----------
    num_new : int
        Positions of a chunk, or those that a decode allocates ahead.
    """
    return ceil_to(window - 1 + num_new + 2 * (page_size - 1), page_size)
