"""What V2 allocates before an iteration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specsim.counts import ceil_to
from specsim.simulation.memory.holding import Holding, Memory, SlotRange
from specsim.simulation.memory.reserve import DecodeSizes, NextLength, next_allocated_length, require_row

EVICTED_STEPS = 20
"""Tokens for each request that goes on that a retraction makes room for, so that the next one is not due at once."""

Demand = Callable[[Sequence[Holding]], int]


@dataclass(frozen=True)
class Room:
    """What a batch had to give up.

    Parameters
    ----------
    num_kept : int
        Requests that go on: the front of the batch.
    retracted : tuple of int
        Places of the retracted ones in the batch, in the order in which they join the end of the waiting queue.
    aborted : int or None
        Place of the one that was left and still finds no room; it ends, and nothing goes on.
    """

    num_kept: int
    retracted: tuple[int, ...] = ()
    aborted: int | None = None


def evict_for(memory: Memory, need: int) -> bool:
    """Have the cache give slots back if fewer are free than needed, and return whether enough are free now.

    The cache is asked for the whole need, not for what is missing; again, if what it gave back had no SWA slots left.
    """
    while memory.allocator.num_free < need and memory.cache is not None:
        evicted = memory.cache.evict(need)
        if not evicted:
            break
        memory.free(evicted)
    return memory.allocator.num_free >= need


def make_room(memory: Memory, batch: Sequence[Holding], demand: Demand, retract: Callable[[Holding], None]) -> Room:
    """Retract requests from the end of a batch until the others find room for a decode.

    Parameters
    ----------
    memory : Memory
        What is shared.
    batch : sequence of Holding
        The running requests in batch order.
    demand : callable
        Returns the slots that some of them need together.
    retract : callable
        Gives back what a request has.

    Notes
    -----
    Source: semantics I.5.
    """
    num_kept = len(batch)
    if evict_for(memory, demand(batch)):
        return Room(num_kept)
    retracted: list[int] = []
    while num_kept > 1:
        num_kept -= 1
        retract(batch[num_kept])
        retracted.append(num_kept)
        evict_for(memory, EVICTED_STEPS * num_kept)
        if evict_for(memory, demand(batch[:num_kept])):
            return Room(num_kept, tuple(retracted))
    return Room(0, tuple(retracted), aborted=0)


def prepare_for_decode(
    memory: Memory,
    batch: Sequence[Holding],
    sizes: DecodeSizes,
    *,
    next_allocated_length: NextLength = next_allocated_length,
) -> list[SlotRange]:
    """Allocate the reserve of every request of a batch, in its order; one that has it gets nothing.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT, OUT_OF_SLOTS: nothing was allocated, for no one.

    Notes
    -----
    Source: semantics I.2.
    """
    size = memory.page_size
    ends = [next_allocated_length(one.books.num_committed, one.books.num_allocated, sizes, size) for one in batch]
    growing = [(one, end) for one, end in zip(batch, ends, strict=True) if end > one.books.num_allocated]
    return extend_holdings(memory, [one for one, _ in growing], [end for _, end in growing])


def extend_holdings(memory: Memory, holdings: Sequence[Holding], ends: Sequence[int]) -> list[SlotRange]:
    """Allocate the positions of some requests up to an end each, out of unused cached slots if need be.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT, OUT_OF_SLOTS, and what the allocator refuses; nothing was allocated.
    """
    for end in ends:
        require_row(end, memory.row_width)
    starts = [one.books.num_allocated for one in holdings]
    size = memory.page_size
    evict_for(memory, sum(ceil_to(end, size) - ceil_to(start, size) for start, end in zip(starts, ends, strict=True)))
    given = memory.allocator.extend(starts, ends, [one.last_slot for one in holdings])
    ranges: list[SlotRange] = []
    for one, start, end, slots in zip(holdings, starts, ends, given, strict=True):
        one.slots.extend(slots)
        one.books = one.books.allocate(end)
        ranges.append(SlotRange(one.books.row, start, end, tuple(slots)))
    return ranges
