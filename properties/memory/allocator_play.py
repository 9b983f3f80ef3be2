"""An allocator beside plain lists that follow its rules position by position; every event compares the two."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from specsim.properties.laws.checks import refuses, require
from specsim.properties.memory.strategy import MOST_REQUESTS, AllocatorHistory, Event
from specsim.rejection import Reason
from specsim.simulation.memory.protocols import Allocator


class PlainPages:
    """Free pages in a list, and the slots that wait for the end of a group."""

    def __init__(self, page_size: int, free: Sequence[int]) -> None:
        self.page_size = page_size
        self.free_pages = list(free)
        self.group: list[int] | None = None

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

    def allocate(self, num_pages: int) -> list[int] | None:
        """Return the slots of the first pages."""
        if num_pages > len(self.free_pages):
            return None
        taken, self.free_pages = self.free_pages[:num_pages], self.free_pages[num_pages:]
        return [page * self.page_size + place for page in taken for place in range(self.page_size)]

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back, or keep them until the group ends."""
        if self.group is not None:
            self.group += slots
        elif self.page_size == 1:
            self.free_pages += slots
        else:
            self.free_pages = sorted({slot // self.page_size for slot in slots}) + self.free_pages

    def end(self) -> None:
        """End the group."""
        collected, self.group = list(self.group or ()), None
        self.free(collected)


def extended(allocator: Any, held: Sequence[list[int]], counts: Sequence[int]) -> list[list[int]]:
    """Extend requests by some positions, and return the slots that they get."""
    prefixes = [len(slots) for slots in held]
    ends = [prefix + count for prefix, count in zip(prefixes, counts, strict=True)]
    given: list[list[int]] = allocator.extend(prefixes, ends, [slots[-1] if slots else -1 for slots in held])
    return given


class AllocatorPlay:
    """An allocator, plain lists beside it, and requests with slots."""

    def __init__(self, allocator: Allocator, history: AllocatorHistory) -> None:
        self.allocator = allocator
        size, pages = history.page_size, list(range(1, history.num_pages + 1))
        first = list(allocator.free_pages)
        require(sorted(first) == pages, "free pages at the start", first, pages)
        if history.shuffle_seed is None:
            require(first == pages, "free pages at the start", first, pages)
        self.plain = PlainPages(size, first)
        self.held: list[list[int]] = [[] for _ in range(MOST_REQUESTS)]
        self.loose: list[int] = []
        self.num_pages = history.num_pages
        self.compare("at the start")

    def play(self, events: Sequence[Event]) -> None:
        """Let everything happen, and close what is open."""
        for event in events:
            self.happen(event)
        if self.plain.group is not None:
            self.end()
        self.compare("at the end")

    def happen(self, event: Event) -> None:
        """Do what an event says and compare."""
        match event.what:
            case "extend":
                self.extend(event)
            case "borrow":
                self.borrow(event)
            case "trim":
                self.give_back(event.requests[0], event.counts[0])
            case "free":
                self.give_back_all(event.requests[0], event.counts[0] % 5)
            case "allocate":
                self.allocate(event.counts[0] % 4)
            case "begin":
                self.begin()
            case "end":
                self.refused()
                self.end()
            case _:
                self.refused()
        self.compare(f"after {event}")

    def extend(self, event: Event) -> None:
        """Extend the requests of a batch."""
        held = [self.held[request] for request in event.requests]
        counts = event.counts[: len(held)]
        expected = self.plain.extend(held, counts)
        if expected is None:
            refuses(Reason.OUT_OF_SLOTS, lambda: extended(self.allocator, held, counts))
            return
        got = extended(self.allocator, held, counts)
        require(got == expected, "slots of the extended requests", got, expected)
        for slots, more in zip(held, expected, strict=True):
            slots += more

    def borrow(self, event: Event) -> None:
        """Extend, and put everything back; the same slots come again."""
        before = self.allocator.backup()
        held = [self.held[request] for request in event.requests]
        counts = event.counts[: len(held)]
        free = list(self.plain.free_pages)
        expected = self.plain.extend(held, counts)
        self.plain.free_pages = free
        if expected is not None:
            got = extended(self.allocator, held, counts)
            require(got == expected, "borrowed slots", got, expected)
        self.allocator.restore(before)

    def allocate(self, num_pages: int) -> None:
        """Allocate whole pages, which belong to no one in particular."""
        count = num_pages * self.plain.page_size
        expected = self.plain.allocate(num_pages)
        if expected is None:
            refuses(Reason.OUT_OF_SLOTS, lambda: self.allocator.allocate(count))
            return
        got = self.allocator.allocate(count)
        require(got == expected, "allocated slots", got, expected)
        self.loose += expected

    def give_back(self, request: int, num_kept: int) -> None:
        """Free the pages of a request after some positions; those on the last kept page stay for later."""
        slots, size = self.held[request], self.plain.page_size
        kept = min(num_kept, len(slots))
        self._free(slots[-(-kept // size) * size :])
        del slots[kept:]

    def give_back_all(self, request: int, how: int) -> None:
        """Free what a request has: all slots, backwards, a slot a page or in two calls; or free the loose pages."""
        slots, size = self.held[request], self.plain.page_size
        if how == 3:
            self._free(self.loose)
            self.loose = []
            return
        if how == 4 and self.plain.group is not None:
            self._free(slots[::2])
            self._free(slots[1::2])
            self.held[request] = []
            return
        named = (slots, slots[::-1], slots[size - 1 :: size] + slots[len(slots) // size * size :][:1])[how % 3]
        self._free(list(named))
        self.held[request] = []

    def begin(self) -> None:
        """Begin a group of frees, if none is open."""
        if self.plain.group is None:
            self.allocator.begin_free_group()
            self.plain.group = []
        else:
            refuses(Reason.OPEN_FREE_GROUP, self.allocator.begin_free_group)

    def end(self) -> None:
        """End it, if one is open."""
        if self.plain.group is None:
            refuses(Reason.OPEN_FREE_GROUP, self.allocator.end_free_group)
        else:
            self.allocator.end_free_group()
            self.plain.end()

    def refused(self) -> None:
        """Make every call that has to be refused, and find everything as it was after each."""
        size, allocator, group = self.plain.page_size, self.allocator, self.plain.group or []
        owned = [slots[0] for slots in self.held if slots and slots[0] // size not in {slot // size for slot in group}]
        foreign = [size - 1, (self.num_pages + 1) * size, -1, *(page * size for page in self.plain.free_pages), *group]
        for slots in ([*owned, slot] for slot in (*owned, *foreign)):
            self._refuses(Reason.DOUBLE_FREE, partial(allocator.free, slots))
        self._refuses(Reason.OUT_OF_SLOTS, partial(allocator.allocate, (len(self.plain.free_pages) + 1) * size))
        self._refuses(Reason.COUNT_OUT_OF_RANGE, partial(allocator.allocate, -size))
        self._refuses(Reason.COUNT_OUT_OF_RANGE, partial(allocator.extend, [0], [-1], [-1]))
        self._refuses(Reason.INCONSISTENT_LENGTHS, partial(allocator.extend, [0, 0], [1, 1], [-1]))
        self._refuses(Reason.INCONSISTENT_LENGTHS, partial(allocator.extend, [1], [2], [-1]))
        if size > 1:
            self._refuses(Reason.NOT_DIVISIBLE, partial(allocator.allocate, size + 1))
        for slots in filter(None, self.held):
            prefix, last = len(slots), slots[-1]
            self._refuses(Reason.COUNT_OUT_OF_RANGE, partial(allocator.extend, [prefix], [prefix - 1], [last]))
            if size > 1:
                wrong = last - 1 if last % size else last + 1
                self._refuses(Reason.INCONSISTENT_LENGTHS, partial(allocator.extend, [prefix], [prefix + 1], [wrong]))
            if prefix % size:
                twice = partial(allocator.extend, [prefix, prefix], [prefix + 1, prefix + 1], [last, last])
                self._refuses(Reason.DUPLICATE_SLOT, twice)

    def compare(self, when: str) -> None:
        """Raise AssertionError unless the allocator and the lists have the same."""
        size, plain = self.plain.page_size, self.plain
        have = {slot // size for slots in (*self.held, self.loose) for slot in slots}
        for what, got, expected in (
            ("page_size", self.allocator.page_size, size),
            ("free_pages", list(self.allocator.free_pages), plain.free_pages),
            ("num_free", self.allocator.num_free, len(plain.free_pages) * size),
            ("freed_in_group", list(self.allocator.freed_in_group), plain.group or []),
            ("owned_pages", sorted(self.allocator.owned_pages), sorted(have)),
        ):
            require(got == expected, f"{what} {when}", got, expected)

    def _free(self, slots: list[int]) -> None:
        row = list(slots)
        self.allocator.free(row)
        self.plain.free(list(row))
        row.clear()

    def _refuses(self, reason: Reason, call: Callable[[], Any]) -> None:
        refuses(reason, call)
        self.compare(f"after a call that is refused for {reason.name}")
