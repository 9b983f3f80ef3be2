"""An allocator beside plain lists that follow its rules position by position: of one pool, or of two."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from specsim.properties.laws.checks import refuses, require, require_same
from specsim.properties.memory.beside import require_all, require_refused
from specsim.properties.memory.strategy import MOST_REQUESTS, AllocatorHistory, Event
from specsim.rejection import Reason


class PlainPages:
    """Free pages in a list, and the slots that wait for the end of a group."""

    def __init__(self, page_size: int, free: Sequence[int]) -> None:
        self.page_size = page_size
        self.free_pages = list(free)
        self.group: list[int] | None = None

    @property
    def num_free(self) -> int:
        """Pages that can be handed out."""
        return len(self.free_pages)

    def extend(self, held: Sequence[list[int]], counts: Sequence[int]) -> list[list[int]] | None:
        """Return the next slots of some requests, one position after the other; None where pages run out."""
        pages = list(self.free_pages)
        given: list[list[int]] = []
        for slots, count in zip(held, counts, strict=True):
            row = list(slots)
            for position in range(len(slots), len(slots) + count):
                if position % self.page_size:
                    row.append(row[-1] + 1)
                elif pages:
                    row.append(pages.pop(0) * self.page_size)
                else:
                    return None
            given.append(row[len(slots) :])
        self.free_pages = pages
        return given

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back, or keep them until the group ends."""
        if self.group is not None:
            self.group += slots
        elif self.page_size == 1:
            self.free_pages += slots
        else:
            self.free_pages = sorted({slot // self.page_size for slot in slots}) + self.free_pages

    def begin(self) -> None:
        """Begin a group."""
        self.group = []

    def end(self) -> None:
        """End it."""
        collected, self.group = list(self.group or ()), None
        self.free(collected)

    def seen(self, allocator: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield what can be seen of an allocator, and what it should be."""
        yield "page_size", allocator.page_size, self.page_size
        yield "free_pages", list(allocator.free_pages), self.free_pages
        yield "num_free", allocator.num_free, self.num_free * self.page_size
        yield "freed_in_group", list(allocator.freed_in_group), self.group or []


class PlainPools(PlainPages):
    """Free pages of two pools, and which SWA page stands for which page."""

    def __init__(self, page_size: int, num_pages: int, num_swa_pages: int) -> None:
        super().__init__(page_size, range(1, num_pages + 1))
        self.swa = PlainPages(page_size, range(1, num_swa_pages + 1))
        self.pages: dict[int, int] = {}
        self.num_slots = (num_pages + 1) * page_size

    @property
    def num_free(self) -> int:
        """Pages that can be handed out: as many as both pools have."""
        return min(len(self.free_pages), self.swa.num_free)

    def extend(self, held: Sequence[list[int]], counts: Sequence[int]) -> list[list[int]] | None:
        """Return the next slots of some requests; where either pool is short, no one gets anything."""
        before, given = self.free_pages, super().extend(held, counts)
        firsts = [slot // self.page_size for slots in given or () for slot in slots if slot % self.page_size == 0]
        more = self.swa.extend([[]], [len(firsts) * self.page_size])
        if given is None or more is None:
            self.free_pages = before
            return None
        self.pages.update(zip(firsts, [slot // self.page_size for slot in more[0][:: self.page_size]], strict=True))
        return given

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back, and the SWA slots that they have."""
        super().free(slots)
        self.evict([slot for slot in slots if slot // self.page_size in self.pages])

    def evict(self, slots: Sequence[int]) -> None:
        """Take the SWA slots of some slots back."""
        self.swa.free([self.swa_slot(slot) for slot in slots])
        for page in {slot // self.page_size for slot in slots}:
            del self.pages[page]

    def begin(self) -> None:
        """Begin a group in both pools."""
        super().begin()
        self.swa.begin()

    def end(self) -> None:
        """End it in both."""
        super().end()
        self.swa.end()

    def swa_slot(self, slot: int) -> int:
        """Return the SWA slot of a slot, 0 for none."""
        page = self.pages.get(slot // self.page_size)
        return 0 if page is None else page * self.page_size + slot % self.page_size

    def seen(self, allocator: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield what can be seen of an allocator of both."""
        yield from super().seen(allocator)
        slots = range(self.num_slots)
        yield "free SWA pages", list(allocator.swa.free_pages), self.swa.free_pages
        yield "freed SWA slots", list(allocator.swa.freed_in_group), self.swa.group or []
        yield "SWA slots", list(allocator.swa_slots(slots)), [self.swa_slot(slot) for slot in slots]


class AllocatorPlay:
    """An allocator, plain lists beside it, and requests with slots."""

    def __init__(self, allocator: Any, history: AllocatorHistory) -> None:
        self.allocator = allocator
        size, pages = history.page_size, list(range(1, history.num_pages + 1))
        first = list(allocator.free_pages)
        require(sorted(first) == pages, "free pages at the start", first, pages)
        if history.shuffle_seed is None:
            require_same("free pages at the start", first, pages)
        self.pools = PlainPools(size, history.num_pages, history.num_swa_pages) if history.num_swa_pages else None
        self.plain: PlainPages = self.pools or PlainPages(size, first)
        self.held: list[list[int]] = [[] for _ in range(MOST_REQUESTS)]
        self.loose: list[int] = []
        self.size, self.num_pages = size, history.num_pages
        self.refused = partial(require_refused, self)

    def happen(self, event: Event) -> None:
        """Do what an event says."""
        held, count = [self.held[request] for request in event.requests], event.counts[0]
        match event.what:
            case "extend":
                self.extend(held, event.counts[: len(held)])
            case "borrow":
                self.borrow(held, event.counts[: len(held)])
            case "trim":
                self.give_back(held[0], count)
            case "free":
                self.give_back_all(held[0], count % 5)
            case "allocate":
                self.allocate(count % 4)
            case "evict" if self.pools:
                self.evict(self.pools, held[0], count)
            case "hand" if self.pools:
                self.hand_over(self.pools, held[0], held[-1], count)
            case "begin" if self.plain.group is None:
                self.allocator.begin_free_group()
                self.plain.begin()
            case "begin":
                self.refused(Reason.OPEN_FREE_GROUP, self.allocator.begin_free_group)
            case _:
                self.refuse_all()
                if event.what == "end":
                    self.end()

    def compare(self, when: str) -> None:
        """Raise AssertionError unless both have the same."""
        require_all(self.seen(), when)

    def seen(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield what the lists have of the allocator, and whose pages those are that are not free."""
        have = {slot // self.size for slots in (*self.held, self.loose) for slot in slots}
        yield from self.plain.seen(self.allocator)
        yield "owned_pages", sorted(self.allocator.owned_pages), sorted(have)

    def end(self) -> None:
        """End a group, if one is open."""
        if self.plain.group is None:
            self.refused(Reason.OPEN_FREE_GROUP, self.allocator.end_free_group)
        else:
            self.allocator.end_free_group()
            self.plain.end()

    def extend(self, held: Sequence[list[int]], counts: Sequence[int]) -> None:
        """Extend the requests of a batch; where pages run out, no one gets anything."""
        expected = self.plain.extend(held, counts)
        if expected is None:
            refuses(Reason.OUT_OF_SLOTS, lambda: self._extended(held, counts))
            return
        require_same("slots of the extended requests", self._extended(held, counts), expected)
        for slots, more in zip(held, expected, strict=True):
            slots += more

    def borrow(self, held: Sequence[list[int]], counts: Sequence[int]) -> None:
        """Extend, and put everything back; the same slots come again."""
        before, plain = self.allocator.backup(), deepcopy(self.plain)
        expected = plain.extend(held, counts)
        if expected is not None:
            require_same("borrowed slots", self._extended(held, counts), expected)
            require_all(plain.seen(self.allocator), "while slots are borrowed")
        self.allocator.restore(before)

    def allocate(self, num_pages: int) -> None:
        """Allocate whole pages, which belong to no one in particular."""
        count = num_pages * self.size
        expected = self.plain.extend([[]], [count])
        if expected is None:
            refuses(Reason.OUT_OF_SLOTS, lambda: self.allocator.allocate(count))
            return
        got = self.allocator.allocate(count)
        require_same("allocated slots", got, expected[0])
        self.loose += got

    def give_back(self, slots: list[int], num_kept: int) -> None:
        """Free the pages of a request after some positions; those on the last kept page stay for later."""
        kept = min(num_kept, len(slots))
        self._free(slots[-(-kept // self.size) * self.size :])
        del slots[kept:]

    def give_back_all(self, slots: list[int], how: int) -> None:
        """Free what a request has: all slots, backwards, a slot a page or in two calls; or free the loose pages."""
        size = self.size
        if how == 3:
            self._free(self.loose)
            self.loose.clear()
        elif how == 4 and self.plain.group is not None:
            self._free(slots[::2])
            self._free(slots[1::2])
            slots.clear()
        else:
            self._free((slots, slots[::-1], slots[size - 1 :: size] + self._partial(slots)[:1])[how % 3])
            slots.clear()

    def evict(self, pools: PlainPools, request: list[int], count: int) -> None:
        """Evict pages from the front of a request that have SWA slots, those that it still fills excepted."""
        whole = self._whole(request)[: count * self.size]
        slots = [slot for slot in whole if slot // self.size in pools.pages][:: -1 if count % 2 else 1]
        before = self.allocator.backup()
        self.allocator.evict(slots)
        pools.evict(slots)
        if slots and pools.group is None:
            self.refused(Reason.DOUBLE_FREE, partial(self.allocator.restore, before))

    def hand_over(self, pools: PlainPools, first: list[int], second: list[int], num_pages: int) -> None:
        """Give the SWA slots of a request's first pages to those of another that have none."""
        size, hand_over = self.size, self.allocator.hand_over
        givers = [slot for slot in self._whole(first) if slot // size in pools.pages]
        takers = [slot for slot in self._whole(second) if slot // size not in pools.pages]
        count = min(len(givers), len(takers), num_pages * size)
        hand_over(givers[:count], takers[:count])
        for giver, taker in zip(givers[:count:size], takers[:count:size], strict=True):
            pools.pages[taker // size] = pools.pages.pop(giver // size)
        if givers[count:]:
            self.refused(Reason.DUPLICATE_SLOT, partial(hand_over, givers[-size:], givers[-size:]))
        if takers[count:]:
            self.refused(Reason.UNMAPPED_SLOT, partial(hand_over, takers[-size:], takers[-size:]))
            self.refused(Reason.INCONSISTENT_LENGTHS, partial(hand_over, [], takers[-size:]))

    def refuse_all(self) -> None:
        """Make every call that has to be refused, and find everything as it was after each."""
        size, allocator, group = self.size, self.allocator, self.plain.group or []
        owned = [slots[0] for slots in self.held if slots and slots[0] // size not in {slot // size for slot in group}]
        foreign = [size - 1, (self.num_pages + 1) * size, -1, *(page * size for page in self.plain.free_pages), *group]
        for slots in ([*owned, slot] for slot in (*owned, *foreign)):
            self.refused(Reason.DOUBLE_FREE, partial(allocator.free, slots))
        self.refused(Reason.OUT_OF_SLOTS, partial(allocator.allocate, (self.plain.num_free + 1) * size))
        self.refused(Reason.COUNT_OUT_OF_RANGE, partial(allocator.allocate, -size))
        self.refused(Reason.COUNT_OUT_OF_RANGE, partial(allocator.extend, [0], [-1], [-1]))
        self.refused(Reason.INCONSISTENT_LENGTHS, partial(allocator.extend, [0, 0], [1, 1], [-1]))
        self.refused(Reason.INCONSISTENT_LENGTHS, partial(allocator.extend, [1], [2], [-1]))
        if size > 1:
            self.refused(Reason.NOT_DIVISIBLE, partial(allocator.allocate, size + 1))
        for slots in filter(None, self.held):
            prefix, last = len(slots), slots[-1]
            self.refused(Reason.COUNT_OUT_OF_RANGE, partial(allocator.extend, [prefix], [prefix - 1], [last]))
            if size > 1:
                wrong = last - 1 if last % size else last + 1
                self.refused(Reason.INCONSISTENT_LENGTHS, partial(allocator.extend, [prefix], [prefix + 1], [wrong]))
            if self._partial(slots):
                twice = partial(allocator.extend, [prefix, prefix], [prefix + 1, prefix + 1], [last, last])
                self.refused(Reason.DUPLICATE_SLOT, twice)
        if self.pools:
            self.refuse_pages(self.pools)

    def refuse_pages(self, pools: PlainPools) -> None:
        """Make every call on SWA pages that has to be refused."""
        size, allocator = self.size, self.allocator
        free = [page * size for page in pools.free_pages[:1]]
        gone = [slots[0] for slots in self.held if slots and slots[0] // size not in pools.pages]
        for first in (0, *free, *gone):
            self.refused(Reason.DOUBLE_FREE, partial(allocator.evict, list(range(first, first + size))))
        for slots in filter(None, self.held):
            if size > 1:
                self.refused(Reason.NOT_DIVISIBLE, partial(allocator.evict, slots[:1]))
                self.refused(Reason.NOT_DIVISIBLE, partial(allocator.hand_over, slots[:1], slots[:1]))
            whole = self._whole(slots)[:size]
            if whole and whole[0] // size in pools.pages:
                self.refused(Reason.DOUBLE_FREE, partial(allocator.evict, [*whole, *whole]))

    def _whole(self, slots: list[int]) -> list[int]:
        return slots[: len(slots) // self.size * self.size]

    def _partial(self, slots: list[int]) -> list[int]:
        return slots[len(slots) // self.size * self.size :]

    def _extended(self, held: Sequence[list[int]], counts: Sequence[int]) -> list[list[int]]:
        """Extend requests by some positions, and return the slots that they get."""
        prefixes = [len(slots) for slots in held]
        ends = [prefix + count for prefix, count in zip(prefixes, counts, strict=True)]
        given: list[list[int]] = self.allocator.extend(prefixes, ends, [slots[-1] if slots else -1 for slots in held])
        return given

    def _free(self, slots: Sequence[int]) -> None:
        row = list(slots)
        self.allocator.free(row)
        self.plain.free(list(row))
        row.clear()
