"""Pages that leave, beside plain dictionaries: what has left of whom, who reads a page, and who has given it back."""

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

from specsim.properties.laws.checks import refuses, require, require_same
from specsim.properties.memory.beside import require_all
from specsim.properties.memory.strategy import Event
from specsim.rejection import Reason
from specsim.simulation.memory import Export, ExportLengths, Exports


class ExportsPlay:
    """What keeps pages that are on their way, the dictionaries beside it, and texts whose pages leave."""

    def __init__(self, exports: Exports, size: int) -> None:
        self.exports, self.size = exports, size
        self.texts: dict[Hashable, list[int]] = {}
        self.left: dict[Hashable, list[int]] = {}
        self.read: dict[int, list[int]] = {}
        self.late: list[int] = []
        self.next_page = 1

    def happen(self, event: Event) -> None:
        """Do what an event says."""
        name, number = event.requests[0], event.counts[0]
        pages = self.texts.setdefault(name, [])
        match event.what:
            case "grow":
                pages += range(self.next_page, self.next_page + number % 3)
                self.next_page += number % 3
                self.begin(name, event.counts[1] % self.size)
            case "back":
                del pages[max(0, len(pages) - number % 3) :]
                self.begin(name, 0)
            case "other":
                kept = len(pages) // 2
                pages[kept:] = range(self.next_page, self.next_page + len(pages) - kept)
                self.next_page += len(pages)
                self.begin(name, 0)
            case "share":
                pages[:] = self.texts.get(event.requests[-1], [])
                self.begin(name, 0)
            case "free" if pages:
                page = pages.pop()
                if not any(page in others for others in self.texts.values()):
                    self.free(page)
            case "end" if self.read:
                self.arrive(sorted(self.read)[number % len(self.read)])
            case "refused":
                refuses(Reason.DOUBLE_FREE, partial(self.exports.end, max(self.read, default=0) + 1000))

    def begin(self, name: Hashable, rest: int) -> None:
        """Let a text of whole pages and a rest leave; pages that left before, at the same place, do not leave again."""
        pages, size = self.texts[name], self.size
        slots = self._slots(pages)
        beyond = [self.next_page * size + place for place in range(rest)]
        count = len(slots) + len(beyond)
        export = Export((0,) * count, (*slots, *beyond), ExportLengths(count, count), len(pages))
        before = self.left.get(name, [])
        num_same = 0
        while num_same < min(len(before), len(pages)) and before[num_same] == pages[num_same]:
            num_same += 1
        transfer = self.exports.begin(name, export)
        require_same(f"slots that leave of {name}", transfer.slots, tuple(slots[num_same * size :]))
        require(transfer.number not in self.read, "number of a transfer", transfer.number, "another one")
        self.left[name], self.read[transfer.number] = list(pages), pages[num_same:]

    def free(self, page: int) -> None:
        """Give a page back, which stays while a transfer reads it."""
        slots = self._slots([page])
        expected = [] if page in self._pages_read() else slots
        got = self.exports.keep(slots)
        require(list(got) == expected, f"slots of page {page} that are free at once", got, expected)
        self.late += [] if expected else slots

    def arrive(self, number: int) -> None:
        """End a transfer; what was given back and no other one reads is free."""
        del self.read[number]
        expected = [slot for slot in self.late if slot // self.size not in self._pages_read()]
        got = self.exports.end(number)
        require(sorted(got) == sorted(expected), f"slots that are free after transfer {number}", got, expected)
        self.late = [slot for slot in self.late if slot not in expected]
        refuses(Reason.DOUBLE_FREE, partial(self.exports.end, number))

    def end(self) -> None:
        """End all transfers, and forget every text."""
        for transfer in sorted(self.read):
            self.arrive(transfer)
        for gone in self.left:
            self.exports.forget(gone)
            require(not self.exports.left_of(gone), f"pages of {gone}, which is forgotten", "some", "none")
        self.left.clear()

    def compare(self, when: str) -> None:
        """Raise AssertionError unless both have the same."""
        require_all(self.seen(), when)

    def seen(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield what the dictionaries have of pages that left and are on their way."""
        for name, pages in self.left.items():
            yield f"pages that have left of {name}", list(self.exports.left_of(name)), self._slots(pages)
        yield "pages on their way", sorted(self.exports.pages), sorted(self._pages_read())
        yield "slots that are given back late", sorted(self.exports.late), sorted(self.late)

    def _pages_read(self) -> set[int]:
        return {page for pages in self.read.values() for page in pages}

    def _slots(self, pages: list[int]) -> list[int]:
        return [page * self.size + place for page in pages for place in range(self.size)]
