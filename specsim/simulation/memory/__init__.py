"""Host memory of an engine: slots, pages, rows, cached prefixes, and the books that say who owns them."""

from specsim.simulation.memory.books import Books
from specsim.simulation.memory.decode import Room, make_room, prepare_for_decode
from specsim.simulation.memory.export import export_text
from specsim.simulation.memory.free_list import RowAllocator
from specsim.simulation.memory.holding import Holding, Memory, SlotRange
from specsim.simulation.memory.keys import key_units, num_key_units
from specsim.simulation.memory.ledger import Ledger
from specsim.simulation.memory.pages import PageAllocator, SlotAllocator
from specsim.simulation.memory.prefill import (
    admit_request,
    allocate_chunk,
    allocate_loaded,
    match_prefix,
    publish_prefix,
)
from specsim.simulation.memory.protocols import Allocator, KeyUnit, Match, Rows, Snapshot, SwaSlots
from specsim.simulation.memory.radix_cache import RadixCache
from specsim.simulation.memory.release import owned_length, plan_release, release_finished, release_retracted
from specsim.simulation.memory.reserve import (
    DecodeSizes,
    alloc_len_per_decode,
    decode_reserve,
    new_tokens_required_next_decode,
    next_allocated_length,
    positions_of_decode,
    required_row_width,
)
from specsim.simulation.memory.swa_allocator import SwaAllocator
from specsim.simulation.memory.transfers import Export, ExportLengths, Exports, Transfer
from specsim.simulation.memory.window import evict_behind_window, most_swa_slots, num_behind_window, with_swa_slots

__all__ = [
    "Allocator",
    "Books",
    "DecodeSizes",
    "Export",
    "ExportLengths",
    "Exports",
    "Holding",
    "KeyUnit",
    "Ledger",
    "Match",
    "Memory",
    "PageAllocator",
    "RadixCache",
    "Room",
    "RowAllocator",
    "Rows",
    "SlotAllocator",
    "SlotRange",
    "Snapshot",
    "SwaAllocator",
    "SwaSlots",
    "Transfer",
    "admit_request",
    "alloc_len_per_decode",
    "allocate_chunk",
    "allocate_loaded",
    "decode_reserve",
    "evict_behind_window",
    "export_text",
    "key_units",
    "make_allocator",
    "make_room",
    "match_prefix",
    "most_swa_slots",
    "new_tokens_required_next_decode",
    "next_allocated_length",
    "num_behind_window",
    "num_key_units",
    "owned_length",
    "plan_release",
    "positions_of_decode",
    "prepare_for_decode",
    "publish_prefix",
    "release_finished",
    "release_retracted",
    "required_row_width",
    "with_swa_slots",
]


def make_allocator(num_slots: int, page_size: int = 1, shuffle_seed: int | None = None) -> Allocator:
    """Return the allocator of a page size."""
    if page_size == 1:
        return SlotAllocator(num_slots, shuffle_seed)
    return PageAllocator(num_slots, page_size, shuffle_seed)
