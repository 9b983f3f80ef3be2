"""What has left an engine's memory, page by page, and what is on its way."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from specsim.simulation.memory.free_list import double_free


@dataclass(frozen=True)
class ExportLengths:
    """How many positions from the front each cache has of a text; 0 where it has nothing that may leave.

    Parameters
    ----------
    target, draft : int
        Positions whose KV is that of the text, in either cache.
    states : int
        Tokens after which the recurrent states were kept.
    """

    target: int
    draft: int
    states: int = 0


@dataclass(frozen=True)
class Export:
    """What may leave of a request.

    Parameters
    ----------
    tokens, slots : tuple of int
        One of each for the first ``lengths.target`` positions.
    lengths : ExportLengths
        What each cache has of them.
    num_pages : int
        Whole pages of which both caches have everything. The rest of the positions is for a receiver that shares the
        last page with no one.
    """

    tokens: tuple[int, ...]
    slots: tuple[int, ...]
    lengths: ExportLengths
    num_pages: int


@dataclass(frozen=True)
class Transfer:
    """Pages on their way out: a number that ends it, and their slots."""

    number: int
    slots: tuple[int, ...]


class Exports:
    """Which pages have left of each request, and which are on their way and may be neither freed nor written.

    Parameters
    ----------
    page_size : int
        Slots of a page.

    Notes
    -----
    Source: semantics Q.7.
    """

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._left: dict[Hashable, tuple[int, ...]] = {}
        self._on_the_way: dict[int, frozenset[int]] = {}
        self._late: list[int] = []
        self._num_transfers = 0

    @property
    def pages(self) -> frozenset[int]:
        """Pages on their way."""
        return frozenset().union(*self._on_the_way.values())

    @property
    def late(self) -> tuple[int, ...]:
        """Slots that their owner has given back and a transfer still reads."""
        return tuple(self._late)

    def left_of(self, name: Hashable) -> tuple[int, ...]:
        """Return the slots of the pages that have left of a request, from the front of its text."""
        return self._left.get(name, ())

    def begin(self, name: Hashable, export: Export) -> Transfer:
        """Let the pages of an export leave that have not left yet.

        The list of those that have is cut to what the export names: a text that went back has lost the others.
        """
        size, before = self._page_size, self.left_of(name)
        slots, num_same = export.slots[: export.num_pages * size], 0
        while num_same < len(before) and before[num_same : num_same + size] == slots[num_same : num_same + size]:
            num_same += size
        self._left[name] = slots
        self._num_transfers += 1
        transfer = Transfer(self._num_transfers, slots[num_same:])
        self._on_the_way[transfer.number] = frozenset(slot // self._page_size for slot in transfer.slots)
        return transfer

    def forget(self, name: Hashable) -> None:
        """Drop the list of a request of which nothing more leaves."""
        self._left.pop(name, None)

    def keep(self, slots: Iterable[int]) -> list[int]:
        """Keep those of some slots that are given back while their pages are on their way; return the others."""
        returned = list(slots)
        if not self._on_the_way:
            return returned
        pages = self.pages
        self._late += [slot for slot in returned if slot // self._page_size in pages]
        return [slot for slot in returned if slot // self._page_size not in pages]

    def end(self, number: int) -> list[int]:
        """End a transfer; return the slots that were given back meanwhile and that no other one reads.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: it has ended.
        """
        if number not in self._on_the_way:
            raise double_free("transfer", [number])
        del self._on_the_way[number]
        late, self._late = self._late, []
        return self.keep(late)
