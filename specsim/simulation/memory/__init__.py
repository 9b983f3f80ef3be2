"""Host memory of an engine: slots, pages, rows, cached prefixes, and the books that say who owns them."""

from specsim.simulation.memory.page_allocator import PageAllocator
from specsim.simulation.memory.pages import ceil_to, floor_to
from specsim.simulation.memory.protocols import Allocator, KeyUnit, Match, PrefixCache, Rows, Snapshot
from specsim.simulation.memory.rows import RowAllocator
from specsim.simulation.memory.slot_allocator import SlotAllocator

__all__ = [
    "Allocator",
    "KeyUnit",
    "Match",
    "PageAllocator",
    "PrefixCache",
    "RowAllocator",
    "Rows",
    "SlotAllocator",
    "Snapshot",
    "ceil_to",
    "floor_to",
    "make_allocator",
]


def make_allocator(num_slots: int, page_size: int = 1, shuffle_seed: int | None = None) -> Allocator:
    """Return the allocator of a page size."""
    if page_size == 1:
        return SlotAllocator(num_slots, shuffle_seed)
    return PageAllocator(num_slots, page_size, shuffle_seed)
