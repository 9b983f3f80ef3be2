"""What a part that has a twin must refuse in every state, although no scheduler asks for it."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial

from specsim.assertion import require
from specsim.properties.suite.small_scopes.state import State
from specsim.properties.suite.small_scopes.twins import Twin
from specsim.rejection import SpecRejection
from specsim.simulation.memory import KeyUnit

FOREIGN = 1_000
"""Slots and tokens from here on are no one's."""

Question = tuple[str, Callable[[], object]]


def probe(state: State) -> None:
    """Raise AssertionError unless parts of somebody else refuse what they should; nothing changes by that."""
    memory = state.scheduler.memory
    if isinstance(memory.allocator, Twin):
        _ask(_of_slots(memory.allocator))
        _free_in_a_group(deepcopy(memory.allocator))
    if isinstance(memory.rows, Twin):
        _ask(_of_rows(memory.rows))
    if isinstance(memory.cache, Twin):
        _ask(_of_texts(memory.cache))
        _keep_texts(deepcopy(memory.cache))


def _ask(questions: Iterator[Question]) -> None:
    for what, ask in questions:
        try:
            ask()
        except SpecRejection:
            continue
        require(False, what, "taken", "a refusal")


def _of_slots(allocator: Twin) -> Iterator[Question]:
    size, free, owned = allocator.own.page_size, allocator.own.free_pages, allocator.own.owned_pages
    too_many = (len(free) + 1) * size
    yield "slots of page 0 that are freed", partial(allocator.free, [0])
    yield "slots that are handed out beyond the free ones", partial(allocator.allocate, too_many)
    yield "slots of a batch beyond the free ones", partial(allocator.extend, [0], [too_many], [-1])
    yield "a negative number of slots", partial(allocator.allocate, -size)
    yield "lists of two lengths", partial(allocator.extend, [0], [], [-1])
    yield "the end of a group that is not open", allocator.end_free_group
    for page in free[:1]:
        last = page * size + size - 1
        yield "a free slot that is freed", partial(allocator.free, [last])
        yield "a last slot that no one owns", partial(allocator.extend, [size], [size], [last])
    for page in sorted(owned)[:1]:
        yield "a slot that is named twice", partial(allocator.free, [page * size, page * size])
        yield "the slot of another position", partial(allocator.extend, [0], [size], [page * size])
        if size > 1:
            shared = [page * size, page * size]
            yield "a page that two requests fill", partial(allocator.extend, [1, 1], [2, 2], shared)


def _free_in_a_group(allocator: Twin) -> None:
    """Free one page in a group and hand it out again, as no one does between two events."""
    for page in sorted(allocator.own.owned_pages)[:1]:
        slots = [page * allocator.own.page_size]
        allocator.begin_free_group()
        allocator.free(slots)
        _ask(iter([("a slot that a group has", partial(allocator.free, list(slots)))]))
        _ask(iter([("a group inside another", allocator.begin_free_group)]))
        allocator.restore(allocator.backup())
        slots.clear()
        allocator.end_free_group()
    if len(allocator.own.free_pages) > 1:
        allocator.allocate(allocator.own.page_size)


def _of_rows(rows: Twin) -> Iterator[Question]:
    owned = sorted(rows.own.owned)
    yield "row 0 that is freed", partial(rows.free, [0])
    yield "more rows than are free", partial(rows.allocate, rows.own.num_free + 1)
    yield "a negative number of rows", partial(rows.allocate, -1)
    for row in owned[:1]:
        yield "a row that is named twice", partial(rows.free, [row, row])


def _of_texts(cache: Twin) -> Iterator[Question]:
    yield "a negative number of slots to evict", partial(cache.evict, -1)
    yield "units without a slot", partial(cache.insert, [(0, 0)], [])
    for slot in sorted(cache.own.slots)[:1]:
        size = cache.own.page_size
        yield "slots that are cached already", partial(cache.insert, [(0, 0)] * size, [slot] * size)


def _keep_texts(cache: Twin) -> None:
    """Cache a text that does not end with a page, and two short ones; use, keep and forget them piece by piece."""
    size = cache.own.page_size
    everything = cache.own.num_cached + 5 * size
    key: list[KeyUnit] = [(FOREIGN + place, FOREIGN + place + 1) for place in range(3 * size + 1)]
    slots = [FOREIGN * size + place for place in range(len(key))]
    cache.evict(everything)
    cache.insert(key[: 2 * size + size // 2], slots[: 2 * size + size // 2])
    cache.insert(key, slots)
    whole = cache.match(key)
    cache.lock(whole.node)
    front = cache.match(key[: size + size // 2])
    cache.lock(front.node)
    cache.evict(everything)
    cache.unlock(whole.node)
    cache.evict(1)
    cache.evict(everything)
    cache.unlock(front.node)
    cache.evict(everything)
    _ask(iter([("a front that was forgotten", partial(cache.lock, front.node))]))
    _use_a_front(cache, key, slots)
    for use in (cache.match, lambda text: cache.insert(text, [slot + 4 * size for slot in slots[:size]])):
        for turn in (1, 2):
            text = [(FOREIGN * (turn + 1) + place, 0) for place in range(size)]
            cache.insert(text, [slot + 4 * size * turn for slot in slots[:size]])
        use([(FOREIGN * 2 + place, 0) for place in range(size)])
        cache.evict(1)
        cache.evict(everything)


def _use_a_front(cache: Twin, key: list[KeyUnit], slots: list[int]) -> None:
    """Use a text of two pieces after a text of one, forget its end while that is kept, and forget the older front."""
    size = cache.own.page_size
    other: list[KeyUnit] = [(FOREIGN * 4 + place, 0) for place in range(size)]
    cache.insert(key[:size], slots[:size])
    cache.insert(key[: 2 * size], slots[: 2 * size])
    cache.insert(other, [slot + 4 * size for slot in slots[:size]])
    kept = cache.match(other)
    cache.match(key[: 2 * size])
    cache.lock(kept.node)
    cache.evict(1)
    cache.unlock(kept.node)
    cache.evict(1)
    cache.evict(cache.own.num_cached)
