"""Laws of host memory: allocators hand out what they say, each page to one owner, and ledgers notice what is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specsim.assertion import require_present
from specsim.config import PoolSizes
from specsim.conformance.backend import Backend
from specsim.conformance.catalogue import Kind, names_of
from specsim.properties.laws.checks import refuses, require, require_equal, require_same, state
from specsim.properties.memory.allocator_play import AllocatorPlay
from specsim.properties.memory.beside import play_beside
from specsim.properties.memory.cache_play import CachePlay
from specsim.properties.memory.play import MemoryPlay
from specsim.properties.memory.strategy import (
    AllocatorHistory,
    CacheHistory,
    MemoryHistory,
    RowHistory,
    cache_histories,
    memory_histories,
    page_histories,
    page_sizes,
    row_histories,
    slot_histories,
    swa_histories,
    window_cases,
    window_histories,
)
from specsim.rejection import Reason
from specsim.simulation.memory import DecodeSizes, Holding, Memory, SwaSlots
from specsim.simulation.pools import build_memory

PROMPTS = ((0, 1, 2, 0, 1, 2, 0), (0, 1, 2, 0, 1, 2, 1, 1, 0))
SIZES = DecodeSizes(1, 1, 2, allocates_ahead=True)


@dataclass(frozen=True)
class Kept:
    """A memory and two requests that share a cached front."""

    memory: Memory
    first: Holding
    second: Holding

    def check(self, backend: Backend) -> None:
        """Let a ledger look at everything."""
        backend.host("Ledger")(self.memory).check({"first": self.first, "second": self.second})


Plant = Callable[[Kept], object]
"""Makes something wrong."""


def in_good_order(backend: Backend, page_size: int, window: int = 0) -> Kept:
    """Return two requests after their prompts and one decode, each with scratch.

    Without a window their front is cached. With one there are SWA slots, of which the first request has lost those of a
    page before its window.
    """
    part, num_slots = backend.host, 30 * page_size
    sizes = PoolSizes(num_slots, 4, 60, page_size, num_slots if window else 0)
    memory = build_memory(backend, sizes, None, has_cache=not window, has_pair_keys=False, window=window)
    first, second = Holding(part("Books")()), Holding(part("Books")())
    for holding, prompt in zip((first, second), PROMPTS, strict=True):
        part("admit_request")(memory, holding, prompt)
        part("allocate_chunk")(memory, holding, len(prompt))
        part("publish_prefix")(memory, holding, prompt)
    part("evict_behind_window")(memory, first, len(PROMPTS[0]))
    part("prepare_for_decode")(memory, [first, second], SIZES)
    return Kept(memory, first, second)


def _note(holding: Holding, **changed: Any) -> None:
    """Change what the books of a request say."""
    holding.books = replace(holding.books, **changed)


def _swa_of(kept: Kept) -> SwaSlots:
    return require_present("SWA slots", kept.memory.swa)


def _swa_freed(kept: Kept) -> None:
    swa = _swa_of(kept)
    swa.swa.free(swa.swa_slots(kept.first.slots[-1:]))


def _swa_kept_before_the_window(kept: Kept) -> None:
    kept.second.num_evicted = kept.memory.page_size


def _swa_evicted_ahead(kept: Kept) -> None:
    kept.first.num_evicted = kept.first.books.num_committed


def _lost(kept: Kept) -> None:
    kept.second.slots = kept.second.slots[: -kept.memory.page_size]
    _note(kept.second, num_allocated=len(kept.second.slots))


def _shared_by_two(kept: Kept) -> None:
    size = kept.memory.page_size
    kept.second.slots[-size:] = kept.first.slots[-size:]


def _out_of_place(kept: Kept) -> None:
    slots, size = kept.first.slots, kept.memory.page_size
    slots[-size:] = slots[-size:][::-1]


def _foreign_front(kept: Kept) -> None:
    kept.second.slots[0] = kept.first.slots[-1]


WRONG: dict[str, Plant] = {
    "a page that no one owns": _lost,
    "a page of two requests": _shared_by_two,
    "a page of the cache and of a request": lambda kept: _note(kept.first, num_protected=0),
    "a page of the free list and of a request": lambda kept: kept.memory.allocator.free(kept.first.slots[-1:]),
    "a page of the free list and of the cache": lambda kept: kept.memory.allocator.free(kept.first.slots[:1]),
    "a row that no one has": lambda kept: kept.memory.rows.allocate(1),
    "a row of two requests": lambda kept: _note(kept.second, row=kept.first.books.row),
    "a free row that a request has": lambda kept: kept.memory.rows.free([kept.first.books.row]),
    "text after what is allocated": lambda kept: _note(kept.first, num_committed=kept.first.books.num_allocated + 1),
    "positions without slots": lambda kept: _note(kept.first, num_allocated=kept.first.books.num_allocated + 1),
    "a front that the cache does not have": _foreign_front,
}
"""What a ledger has to notice."""
WRONG_IN_PAGES = {**WRONG, "slots that are not side by side": _out_of_place}
"""The same of pages of several slots."""
WRONG_IN_WINDOWS: dict[str, Plant] = {
    "an SWA page that no one owns": lambda kept: _swa_of(kept).swa.allocate(kept.memory.page_size),
    "an SWA page of the free list and of a page": _swa_freed,
    "a position inside a window without an SWA slot": lambda kept: _swa_of(kept).evict(
        kept.second.slots[-kept.memory.page_size :]
    ),
    "a position before a window with an SWA slot": _swa_kept_before_the_window,
    "a request that counts more as evicted than is before its window": _swa_evicted_ahead,
}
"""The same where a layer sees a window."""


def slots_come_from_the_front_and_return_behind(backend: Backend, history: AllocatorHistory) -> None:
    """Slots are handed out first come, first served, and a refused call changes nothing."""
    allocator = backend.host("SlotAllocator")(history.num_slots, shuffle_seed=history.shuffle_seed)
    play_beside(AllocatorPlay(allocator, history), history.events)


def pages_come_from_the_front_and_return_before(backend: Backend, history: AllocatorHistory) -> None:
    """A request fills its last page before it gets another, and pages that return go out again first."""
    allocator = backend.host("PageAllocator")(history.num_slots, history.page_size, shuffle_seed=history.shuffle_seed)
    play_beside(AllocatorPlay(allocator, history), history.events)


def rows_come_from_the_front_and_return_behind(backend: Backend, history: RowHistory) -> None:
    """Row 0 is never given out, and every other row has at most one owner."""
    rows = backend.host("RowAllocator")(history.num_rows)
    free, owned = list(range(1, history.num_rows)), list[int]()
    for event in history.events:
        if event >= 0 and event <= len(free):
            taken, free = free[:event], free[event:]
            require_equal("rows", rows.allocate(event), taken)
            owned += taken
        elif event >= 0:
            refuses(Reason.OUT_OF_SLOTS, lambda: rows.allocate(history.num_rows))
        elif -event <= len(owned):
            row = owned.pop(event)
            rows.free([row])
            free.append(row)
        for foreign in (0, history.num_rows, *free):
            refuses(Reason.DOUBLE_FREE, partial(rows.free, [*owned, foreign]))
        refuses(Reason.COUNT_OUT_OF_RANGE, lambda: rows.allocate(-1))
        require_same("num_free", rows.num_free, len(free))
        require(rows.owned == set(owned), "owned", sorted(rows.owned), sorted(owned))


def an_swa_slot_comes_and_goes_with_its_full_slot(backend: Backend, histories: list[AllocatorHistory]) -> None:
    """Two pools give both or nothing, take both back, and evict from one alone; the map says who stands for whom."""
    for history in histories:
        size, part = history.page_size, "PageAllocator" if history.page_size > 1 else "SlotAllocator"
        sizes = [size] if size > 1 else []
        pools = [backend.host(part)(n, *sizes) for n in (history.num_slots, (history.num_swa_pages + 1) * size)]
        play_beside(AllocatorPlay(backend.host("SwaAllocator")(*pools), history), history.events)


def what_no_token_sees_is_behind_the_window(backend: Backend, case: tuple[int, int, int]) -> None:
    """Pages are before a window that holds none of their positions, counted one by one, and no others are."""
    next_position, window, page_size = case
    seen = {position for position in range(next_position + 1) if next_position - position < window}
    num_after = 0
    while num_after + page_size <= next_position and not seen & set(range(num_after, num_after + page_size)):
        num_after += page_size
    got = backend.host("num_behind_window")(next_position, window, page_size)
    require_same(f"positions before a window of {window} at {next_position}", got, num_after)


def a_cache_is_a_dictionary_of_texts(backend: Backend, histories: list[CacheHistory]) -> None:
    """What is matched, kept and forgotten is what a plain dictionary of whole texts says."""
    for history in histories:
        play_beside(CachePlay(backend.host("RadixCache")(history.page_size), history), history.events)


def a_match_uses_all_that_it_passes(backend: Backend, page_size: int) -> None:
    """What a match passes is used as late as where it ends: a text that was used before that is forgotten earlier."""
    cache = backend.host("RadixCache")(page_size)
    front, tail, other = (tuple(range(page * page_size, (page + 1) * page_size)) for page in range(1, 4))
    for text in (front, front + tail, other):
        cache.insert(text, text)
    kept = cache.match(other).node
    cache.match(front + tail)
    cache.lock(kept)
    require_same("forgotten beside a locked text", tuple(cache.evict(page_size)), tail)
    cache.unlock(kept)
    require_same("forgotten of a text and a front that was used later", tuple(cache.evict(page_size)), other)


def every_slot_has_one_owner_and_holds_its_text(backend: Backend, histories: list[MemoryHistory]) -> None:
    """Whatever happens to requests, pages and rows have one owner, and what is read is what was committed."""
    for history in histories:
        play_beside(MemoryPlay(backend, history), history.events)


def every_swa_slot_has_one_owner_and_holds_its_window(backend: Backend, histories: list[MemoryHistory]) -> None:
    """Whatever a later forward sees through a window is there, and what none sees has given its slot back."""
    for history in histories:
        play_beside(MemoryPlay(backend, history), history.events)


def a_ledger_notices_whatever_is_wrong(backend: Backend, page_size: int) -> None:
    """A ledger accepts a memory in good order, and none in which a page, a row or a length is wrong."""
    _notices(partial(in_good_order, backend, page_size), WRONG if page_size == 1 else WRONG_IN_PAGES, backend)


def a_ledger_notices_whatever_is_wrong_with_windows(backend: Backend, page_size: int) -> None:
    """A ledger accepts windows in good order, and none that has lost what it sees or keeps what nothing sees."""
    _notices(partial(in_good_order, backend, page_size, window=2), WRONG_IN_WINDOWS, backend)


def _notices(make: Callable[[], Kept], wrong: Mapping[str, Plant], backend: Backend) -> None:
    make().check(backend)
    for what, plant in wrong.items():
        kept = make()
        plant(kept)
        try:
            kept.check(backend)
        except AssertionError:
            continue
        require(False, what, "not noticed", "an AssertionError")


_PARTS = names_of(Kind.PART)
_SWA = ("SwaAllocator", "SlotAllocator", "PageAllocator")

PROPERTIES = (
    state("memory", slots_come_from_the_front_and_return_behind, slot_histories, ("SlotAllocator",), "P38"),
    state("memory", rows_come_from_the_front_and_return_behind, row_histories, ("RowAllocator",), "P38"),
    state("memory", pages_come_from_the_front_and_return_before, page_histories, ("PageAllocator",), "P38"),
    state("memory", an_swa_slot_comes_and_goes_with_its_full_slot, swa_histories, _SWA, "P45"),
    state("memory", what_no_token_sees_is_behind_the_window, window_cases, ("num_behind_window",), "P45"),
    state("memory", a_cache_is_a_dictionary_of_texts, cache_histories, ("RadixCache",), "P43"),
    state("memory", a_match_uses_all_that_it_passes, page_sizes, ("RadixCache",), "P43"),
    # NOTE: the simplest histories admit no request: what decodes, makes room and retracts would not be called.
    state("memory", every_slot_has_one_owner_and_holds_its_text, memory_histories, _PARTS, "P38", least_examples=4),
    state(
        "memory", every_swa_slot_has_one_owner_and_holds_its_window, window_histories, _PARTS, "P45", least_examples=4
    ),
    state("memory", a_ledger_notices_whatever_is_wrong, page_sizes, ("Ledger",), "P38"),
    state("memory", a_ledger_notices_whatever_is_wrong_with_windows, page_sizes, ("Ledger", *_SWA), "P45"),
)
