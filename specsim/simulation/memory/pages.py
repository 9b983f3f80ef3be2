"""The allocators of slots and of pages, which share everything but the order in which pages come back."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from specsim.counts import ceil_to
from specsim.rejection import Reason, SpecRejection, check_multiple, contradiction
from specsim.simulation.memory.free_list import FreeList, double_free, twice
from specsim.simulation.memory.protocols import Snapshot


class PagedAllocator(ABC):
    """Slots of a pool, owned by pages.

    Parameters
    ----------
    num_slots : int
        Slots of the pool, those of page 0 included, which is never given out; what does not fill a page is never
        given out either.
    page_size : int
        Slots of a page.
    shuffle_seed : int or None
        Start with a shuffled order of pages.
    """

    def __init__(self, num_slots: int, page_size: int, shuffle_seed: int | None) -> None:
        self._num_slots = num_slots
        self._page_size = page_size
        self._free = FreeList(num_slots // page_size, "page" if page_size > 1 else "slot", shuffle_seed)
        self._group: list[int] | None = None

    @abstractmethod
    def _order(self, slots: Sequence[int]) -> None:
        """Put the pages of slots, which are owned, into the free list."""

    @property
    def page_size(self) -> int:
        """Slots of a page."""
        return self._page_size

    @property
    def num_slots(self) -> int:
        """Slots of the pool, those of page 0 included."""
        return self._num_slots

    @property
    def num_free(self) -> int:
        """Slots that can be handed out now."""
        return len(self._free) * self._page_size

    @property
    def free_pages(self) -> tuple[int, ...]:
        """Free pages, in the order in which they are handed out."""
        return tuple(self._free.numbers)

    @property
    def owned_pages(self) -> frozenset[int]:
        """Pages that somebody has."""
        return frozenset(self._free.owned.difference(self._pages_of(self.freed_in_group)))

    @property
    def freed_in_group(self) -> tuple[int, ...]:
        """Slots that the open group has collected."""
        return tuple(self._group or ())

    def allocate(self, count: int) -> list[int]:
        """Hand out whole pages from the front of the free list."""
        check_multiple("slots to allocate", count, self._page_size, "whole pages are handed out")
        return self._slots_of(self._free.take(count // self._page_size))

    def extend(self, prefixes: Sequence[int], ends: Sequence[int], last_slots: Sequence[int]) -> list[list[int]]:
        """Hand out the slots of positions ``prefix`` to ``end−1`` of each request: those of its last page first."""
        self._check_extend(prefixes, ends, last_slots)
        wanted = [self._num_pages(end) - self._num_pages(prefix) for prefix, end in zip(prefixes, ends, strict=True)]
        self._free.check(sum(wanted))
        given: list[list[int]] = []
        for prefix, end, last, num_pages in zip(prefixes, ends, last_slots, wanted, strict=True):
            in_last_page = min(end, ceil_to(prefix, self._page_size)) - prefix
            slots = [*range(last + 1, last + 1 + in_last_page), *self._slots_of(self._free.take(num_pages))]
            given.append(slots[: end - prefix])
        return given

    def free(self, slots: Iterable[int]) -> None:
        """Take slots back, and with each the page that it lies in; in an open group, at its end."""
        returned = list(slots)
        self._require_owned([*self.freed_in_group, *returned])
        if self._group is None:
            self._order(returned)
        else:
            self._group.extend(returned)

    def begin_free_group(self) -> None:
        """Collect frees from here on."""
        if self._group is not None:
            raise _misplaced("open already", "closed", "groups do not nest")
        self._group = []

    def end_free_group(self) -> None:
        """Free what was collected, in one go."""
        if self._group is None:
            raise _misplaced("closed", "open", "nothing was collected")
        collected, self._group = self._group, None
        self._order(collected)

    def backup(self) -> Snapshot:
        """Return who owns what, for ``restore``."""
        return Snapshot(self.free_pages, self._collected, frozenset(self._free.owned))

    def restore(self, before: Snapshot) -> None:
        """Take back what was handed out since a backup, as if it had never been."""
        freed = before.owned - self._free.owned
        if freed or before.group != self._collected:
            raise SpecRejection(
                Reason.DOUBLE_FREE,
                what=f"{self._free.what}s freed since the backup",
                got=sorted(freed) or list(self.freed_in_group),
                expected=str(list(before.group or ())),
                because="they would belong to their old owners again",
            )
        self._free.replace(before.free, before.owned)

    @property
    def _collected(self) -> tuple[int, ...] | None:
        return None if self._group is None else tuple(self._group)

    def _require_owned(self, slots: Sequence[int]) -> None:
        if len(set(slots)) < len(slots):
            raise double_free("slot", twice(slots))
        foreign = {slot for slot in slots if slot // self._page_size not in self._free.owned}
        if foreign:
            raise double_free("slot", sorted(foreign))

    def _check_extend(self, prefixes: Sequence[int], ends: Sequence[int], last_slots: Sequence[int]) -> None:
        if not len(prefixes) == len(ends) == len(last_slots):
            got, because = (len(prefixes), len(ends), len(last_slots)), "each request has one of each"
            raise SpecRejection(Reason.INCONSISTENT_LENGTHS, "prefixes, ends, last_slots", got, "one length", because)
        for place, (prefix, end, last) in enumerate(zip(prefixes, ends, last_slots, strict=True)):
            if not 0 <= prefix <= end:
                expected, because = f"at least {max(prefix, 0)}", f"the request has {prefix} positions"
                raise SpecRejection(Reason.COUNT_OUT_OF_RANGE, f"ends[{place}]", end, expected, because)
            if (last + 1) % self._page_size != prefix % self._page_size or (prefix == 0) != (last == -1):
                raise SpecRejection(
                    Reason.INCONSISTENT_LENGTHS,
                    what=f"last_slots[{place}]",
                    got=last,
                    expected=f"the slot of position {prefix - 1}" if prefix else "-1",
                    because=f"positions and slots of a page of {self._page_size} run side by side",
                )
        self._check_last_pages([last for last in last_slots if last >= 0])

    def _check_last_pages(self, last_slots: Sequence[int]) -> None:
        foreign = sorted({last for last in last_slots if last // self._page_size not in self._free.owned})
        if foreign:
            raise double_free("slot", foreign)
        partial = [last // self._page_size for last in last_slots if (last + 1) % self._page_size]
        shared = twice(partial)
        if shared:
            expected, because = "one request each", "both would fill the same slots"
            raise SpecRejection(Reason.DUPLICATE_SLOT, "last pages of the requests", shared, expected, because)

    def _num_pages(self, length: int) -> int:
        return -(-length // self._page_size)

    def _pages_of(self, slots: Iterable[int]) -> set[int]:
        return {slot // self._page_size for slot in slots}

    def _slots_of(self, pages: Iterable[int]) -> list[int]:
        return [page * self._page_size + place for page in pages for place in range(self._page_size)]


def _misplaced(got: str, expected: str, because: str) -> SpecRejection:
    return SpecRejection(Reason.OPEN_FREE_GROUP, "free group", got, expected, because)


class SlotAllocator(PagedAllocator):
    """Slots 1 … ``num_slots−1``; those that come back line up after the free ones, as they were named.

    Parameters
    ----------
    num_slots : int
        Slots of the pool, slot 0 included.
    shuffle_seed : int or None
        Start with a shuffled order, so that neighbours in time are no neighbours in memory.

    Notes
    -----
    Source: semantics I.6.
    """

    def __init__(self, num_slots: int, shuffle_seed: int | None = None) -> None:
        super().__init__(num_slots, 1, shuffle_seed)

    def _order(self, slots: Sequence[int]) -> None:
        self._free.append(slots)


class PageAllocator(PagedAllocator):
    """Pages 1 … ``num_slots // page_size − 1``; those that come back go before the free ones, ascending.

    Parameters
    ----------
    num_slots : int
        Slots of the pool, those of page 0 included.
    page_size : int
        Slots of a page, at least 2.
    shuffle_seed : int or None
        Start with a shuffled order of pages.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a page of one slot, which ``SlotAllocator`` hands out in another order.

    Notes
    -----
    Source: semantics I.6.
    """

    def __init__(self, num_slots: int, page_size: int, shuffle_seed: int | None = None) -> None:
        if page_size < 2:
            raise contradiction(
                "page_size", page_size, "at least 2", "slots that are owned one by one come back in another order"
            )
        super().__init__(num_slots, page_size, shuffle_seed)

    def _order(self, slots: Sequence[int]) -> None:
        self._free.prepend(sorted(self._pages_of(slots)))
