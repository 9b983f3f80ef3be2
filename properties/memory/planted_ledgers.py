"""Small memories in good order, and what can be wrong with them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from specsim.assertion import require_present
from specsim.config import PoolSizes
from specsim.conformance.backend import Backend
from specsim.simulation.memory import DecodeSizes, Holding, Memory, SwaSlots
from specsim.simulation.pools import build_memory

PROMPTS = ((0, 1, 2, 0, 1, 2, 0), (0, 1, 2, 0, 1, 2, 1, 1, 0))
SIZES = DecodeSizes(1, 1, 2, allocates_ahead=True)


@dataclass(frozen=True)
class Kept:
    """A memory and two requests that share a cached front."""

    memory: Memory
    holdings: dict[str, Holding]

    @property
    def first(self) -> Holding:
        """The request that came first."""
        return self.holdings["first"]

    @property
    def second(self) -> Holding:
        """The one that came after it."""
        return self.holdings["second"]


def in_good_order(backend: Backend, page_size: int, window: int = 0) -> Kept:
    """Return two requests after their prompts and one decode, each with scratch.

    Without a window their front is cached. With one there are SWA slots, of which the first request has lost those of a
    page before its window.
    """
    part, num_slots = backend.host, 30 * page_size
    sizes = PoolSizes(num_slots, 4, 60, page_size, num_slots if window else 0)
    memory = build_memory(backend, sizes, None, has_cache=not window, has_pair_keys=False, window=window)
    holdings = {"first": Holding(part("Books")()), "second": Holding(part("Books")())}
    for holding, prompt in zip(holdings.values(), PROMPTS, strict=True):
        part("admit_request")(memory, holding, prompt)
        part("allocate_chunk")(memory, holding, len(prompt))
        part("publish_prefix")(memory, holding, prompt)
    part("evict_behind_window")(memory, holdings["first"], len(PROMPTS[0]))
    part("prepare_for_decode")(memory, list(holdings.values()), SIZES)
    return Kept(memory, holdings)


def _swa_of(kept: Kept) -> SwaSlots:
    return require_present("SWA slots", kept.memory.swa)


def _swa_lost(kept: Kept) -> None:
    _swa_of(kept).swa.allocate(kept.memory.page_size)


def _swa_freed(kept: Kept) -> None:
    swa = _swa_of(kept)
    swa.swa.free(swa.swa_slots(kept.first.slots[-1:]))


def _swa_evicted_inside(kept: Kept) -> None:
    _swa_of(kept).evict(kept.second.slots[-kept.memory.page_size :])


def _swa_kept_before_the_window(kept: Kept) -> None:
    kept.second.num_evicted = kept.memory.page_size


def _swa_evicted_ahead(kept: Kept) -> None:
    kept.first.num_evicted = kept.first.books.num_committed


def _lost(kept: Kept) -> None:
    kept.second.slots = kept.second.slots[: -kept.memory.page_size]
    kept.second.books = replace(kept.second.books, num_allocated=len(kept.second.slots))


def _shared_by_two(kept: Kept) -> None:
    size = kept.memory.page_size
    kept.second.slots[-size:] = kept.first.slots[-size:]


def _cached_and_owned(kept: Kept) -> None:
    kept.first.books = replace(kept.first.books, num_protected=0)


def _freed_and_owned(kept: Kept) -> None:
    kept.memory.allocator.free(kept.first.slots[-1:])


def _freed_and_cached(kept: Kept) -> None:
    kept.memory.allocator.free(kept.first.slots[:1])


def _row_lost(kept: Kept) -> None:
    kept.memory.rows.allocate(1)


def _row_shared(kept: Kept) -> None:
    kept.second.books = replace(kept.second.books, row=kept.first.books.row)


def _row_freed(kept: Kept) -> None:
    kept.memory.rows.free([kept.first.books.row])


def _committed_beyond(kept: Kept) -> None:
    kept.first.books = replace(kept.first.books, num_committed=kept.first.books.num_allocated + 1)


def _allocated_beyond(kept: Kept) -> None:
    kept.first.books = replace(kept.first.books, num_allocated=kept.first.books.num_allocated + 1)


def _out_of_place(kept: Kept) -> None:
    slots, size = kept.first.slots, kept.memory.page_size
    slots[-size:] = slots[-size:][::-1]


def _foreign_front(kept: Kept) -> None:
    kept.second.slots[0] = kept.first.slots[-1]


WRONG: dict[str, Callable[[Kept], None]] = {
    "a page that no one owns": _lost,
    "a page of two requests": _shared_by_two,
    "a page of the cache and of a request": _cached_and_owned,
    "a page of the free list and of a request": _freed_and_owned,
    "a page of the free list and of the cache": _freed_and_cached,
    "a row that no one has": _row_lost,
    "a row of two requests": _row_shared,
    "a free row that a request has": _row_freed,
    "text after what is allocated": _committed_beyond,
    "positions without slots": _allocated_beyond,
    "a front that the cache does not have": _foreign_front,
}
"""What a ledger has to notice."""
WRONG_IN_PAGES = {**WRONG, "slots that are not side by side": _out_of_place}
"""The same of pages of several slots."""
WRONG_IN_WINDOWS: dict[str, Callable[[Kept], None]] = {
    "an SWA page that no one owns": _swa_lost,
    "an SWA page of the free list and of a page": _swa_freed,
    "a position inside a window without an SWA slot": _swa_evicted_inside,
    "a position before a window with an SWA slot": _swa_kept_before_the_window,
    "a request that counts more as evicted than is before its window": _swa_evicted_ahead,
}
"""The same where a layer sees a window."""
