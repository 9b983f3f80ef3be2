"""An allocator beside plain lists that follow its rules position by position: of one pool, or of two."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from specsim.properties.laws.checks import refuses, require, require_same
from specsim.properties.memory.beside import require_all, require_refused
from specsim.properties.memory.plain_pages import PlainPages, PlainPools
from specsim.properties.memory.strategy import MOST_REQUESTS, AllocatorHistory, Event
from specsim.rejection import Reason


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
