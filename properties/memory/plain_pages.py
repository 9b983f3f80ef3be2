"""Free pages as plain lists: of one pool, and of two of which one has a page for each page of the other, or none."""

from collections.abc import Iterator, Sequence
from typing import Any


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
