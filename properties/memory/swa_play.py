"""An allocator of two pools beside plain lists and a dictionary of pages; every event compares the two."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import refuses, require
from specsim.properties.memory.allocator_play import PlainPages, extended
from specsim.properties.memory.strategy import MOST_REQUESTS, Event, SwaHistory
from specsim.rejection import Reason
from specsim.simulation.memory.protocols import SwaSlots


class SwaPlay:
    """An allocator, the pages that each of its full pages stands for, and requests with slots."""

    def __init__(self, backend: Backend, history: SwaHistory) -> None:
        size = self.size = history.page_size

        def alone(num_pages: int) -> Any:
            num_slots = (num_pages + 1) * size
            if size == 1:
                return backend.host("SlotAllocator")(num_slots)
            return backend.host("PageAllocator")(num_slots, size)

        pools = alone(history.num_pages), alone(history.num_swa_pages)
        self.allocator: SwaSlots = backend.host("SwaAllocator")(*pools)
        self.full = PlainPages(size, range(1, history.num_pages + 1))
        self.swa = PlainPages(size, range(1, history.num_swa_pages + 1))
        self.pages: dict[int, int] = {}
        self.held: list[list[int]] = [[] for _ in range(MOST_REQUESTS)]
        self.num_pages = history.num_pages
        self.compare("at the start")

    def play(self, events: Sequence[Event]) -> None:
        """Let everything happen, and close what is open."""
        for event in events:
            self.happen(event)
            self.compare(f"after {event}")
        if self.full.group is not None:
            self.end()
        self.compare("at the end")

    def happen(self, event: Event) -> None:
        """Do what an event says."""
        match event.what:
            case "extend":
                self.extend(event)
            case "borrow":
                self.borrow(event)
            case "evict":
                self.evict(event.requests[0], event.counts[0])
            case "hand":
                self.hand_over(event)
            case "free":
                self.free(event.requests[0], event.counts[0])
            case "begin" if self.full.group is None:
                self.allocator.begin_free_group()
                self.full.group, self.swa.group = [], []
            case "end" if self.full.group is not None:
                self.end()
            case _:
                self.refused()

    def extend(self, event: Event) -> None:
        """Extend the requests of a batch; where either pool is short, no one gets anything."""
        held, counts = self._batch(event)
        given = self._expected(held, counts)
        if isinstance(given, Reason):
            refuses(given, lambda: extended(self.allocator, held, counts))
            return
        got = extended(self.allocator, held, counts)
        require(got == given, "slots of the extended requests", got, given)
        for slots, more in zip(held, given, strict=True):
            slots += more

    def borrow(self, event: Event) -> None:
        """Extend, and put everything back; the same slots come again."""
        before = self.allocator.backup()
        held, counts = self._batch(event)
        kept = list(self.full.free_pages), list(self.swa.free_pages), dict(self.pages)
        given = self._expected(held, counts)
        if not isinstance(given, Reason):
            got = extended(self.allocator, held, counts)
            require(got == given, "borrowed slots", got, given)
            self._compare_map("while slots are borrowed")
        self.full.free_pages, self.swa.free_pages, self.pages = kept
        self.allocator.restore(before)

    def evict(self, request: int, count: int) -> None:
        """Evict pages from the front of a request that have SWA slots, those that it still fills excepted."""
        whole = self.held[request][: len(self.held[request]) // self.size * self.size]
        slots = [slot for slot in whole[: count * self.size] if slot // self.size in self.pages]
        before = self.allocator.backup()
        self.allocator.evict(slots[:: -1 if count % 2 else 1])
        self.swa.free([self._swa_slot(slot) for slot in slots[:: -1 if count % 2 else 1]])
        for page in {slot // self.size for slot in slots}:
            del self.pages[page]
        if slots and self.full.group is None:
            self._refuses(Reason.DOUBLE_FREE, partial(self.allocator.restore, before))

    def hand_over(self, event: Event) -> None:
        """Give the SWA slots of a request's first pages to those of another that have none."""
        size = self.size
        first, second = (self.held[request] for request in (event.requests[0], event.requests[-1]))
        givers = [slot for slot in first[: len(first) // size * size] if slot // size in self.pages]
        takers = [slot for slot in second[: len(second) // size * size] if slot // size not in self.pages]
        count = min(len(givers), len(takers), event.counts[0] * size)
        self.allocator.hand_over(givers[:count], takers[:count])
        for giver, taker in zip(givers[:count:size], takers[:count:size], strict=True):
            self.pages[taker // size] = self.pages.pop(giver // size)
        if givers[count:]:
            self._refuses(Reason.DUPLICATE_SLOT, partial(self.allocator.hand_over, givers[-size:], givers[-size:]))
        if takers[count:]:
            self._refuses(Reason.UNMAPPED_SLOT, partial(self.allocator.hand_over, takers[-size:], takers[-size:]))
            self._refuses(Reason.INCONSISTENT_LENGTHS, partial(self.allocator.hand_over, [], takers[-size:]))

    def free(self, request: int, how: int) -> None:
        """Free what a request has: all slots, backwards, or a slot a page."""
        slots, size = self.held[request], self.size
        named = (slots, slots[::-1], slots[size - 1 :: size] + slots[len(slots) // size * size :][:1])[how % 3]
        self.allocator.free(list(named))
        self.full.free(list(named))
        self.swa.free([self._swa_slot(slot) for slot in named if slot // size in self.pages])
        for page in {slot // size for slot in named}:
            self.pages.pop(page, None)
        self.held[request] = []

    def end(self) -> None:
        """End a group."""
        self.allocator.end_free_group()
        self.full.end()
        self.swa.end()

    def refused(self) -> None:
        """Make calls that have to be refused, and find everything as it was after each."""
        size, allocator = self.size, self.allocator
        free = [page * size for page in self.full.free_pages[:1]]
        gone = [slots[0] for slots in self.held if slots and slots[0] // size not in self.pages]
        for first in (0, *free, *gone):
            page = list(range(first, first + size))
            self._refuses(Reason.DOUBLE_FREE, partial(allocator.evict, page))
        for slots in filter(None, self.held):
            if size > 1:
                self._refuses(Reason.NOT_DIVISIBLE, partial(allocator.evict, slots[:1]))
                self._refuses(Reason.NOT_DIVISIBLE, partial(allocator.hand_over, slots[:1], slots[:1]))
            whole = slots[:size]
            if len(whole) == size and whole[0] // size in self.pages:
                self._refuses(Reason.DOUBLE_FREE, partial(allocator.evict, [*whole, *whole]))
        short = (min(len(self.full.free_pages), len(self.swa.free_pages)) + 1) * size
        self._refuses(Reason.OUT_OF_SLOTS, partial(allocator.allocate, short))

    def compare(self, when: str) -> None:
        """Raise AssertionError unless the allocator and the lists have the same."""
        allocator, size = self.allocator, self.size
        fewest = min(len(self.full.free_pages), len(self.swa.free_pages))
        for what, got, expected in (
            ("num_free", allocator.num_free, fewest * size),
            ("free_pages", list(allocator.free_pages), self.full.free_pages),
            ("free SWA pages", list(allocator.swa.free_pages), self.swa.free_pages),
            ("freed SWA slots", list(allocator.swa.freed_in_group), self.swa.group or []),
        ):
            require(got == expected, f"{what} {when}", got, expected)
        self._compare_map(when)

    def _compare_map(self, when: str) -> None:
        slots = range((self.num_pages + 1) * self.size)
        got = list(self.allocator.swa_slots(slots))
        expected = [self._swa_slot(slot) if slot // self.size in self.pages else 0 for slot in slots]
        require(got == expected, f"SWA slots {when}", got, expected)

    def _batch(self, event: Event) -> tuple[list[list[int]], Sequence[int]]:
        held = [self.held[request] for request in event.requests]
        return held, event.counts[: len(held)]

    def _expected(self, held: Sequence[list[int]], counts: Sequence[int]) -> list[list[int]] | Reason:
        """Take what a batch gets out of the lists, or return why it gets nothing."""
        free = list(self.full.free_pages)
        given = self.full.extend(held, counts)
        if given is None:
            return Reason.OUT_OF_SLOTS
        firsts = [slot // self.size for slots in given for slot in slots if slot % self.size == 0]
        slots = self.swa.allocate(len(firsts))
        if slots is None:
            self.full.free_pages = free
            return Reason.OUT_OF_SLOTS
        self.pages.update(zip(firsts, [slot // self.size for slot in slots[:: self.size]], strict=True))
        return given

    def _swa_slot(self, slot: int) -> int:
        return self.pages[slot // self.size] * self.size + slot % self.size

    def _refuses(self, reason: Reason, call: Callable[[], Any]) -> None:
        refuses(reason, call)
        self.compare(f"after a call that is refused for {reason.name}")
