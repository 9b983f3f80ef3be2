"""What V2 allocates before an iteration."""

from collections.abc import Sequence

from specsim.counts import ceil_to
from specsim.simulation.memory.holding import Holding, Memory, SlotRange
from specsim.simulation.memory.reserve import DecodeSizes, NextLength, next_allocated_length, require_row
from specsim.simulation.memory.room import evict_for


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
