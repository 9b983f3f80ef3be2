"""Who owns what: everything exactly once."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise

from specsim.assertion import require
from specsim.counts import floor_to
from specsim.simulation.memory.holding import Holding, Memory
from specsim.simulation.memory.window import CountUnseen, num_behind_window

Claims = list[tuple[str, tuple[int, ...]]]
"""Owners, and the pages that each has."""


class Ledger:
    """A check of an engine's memory against what its requests have.

    Parameters
    ----------
    memory : Memory
        What is shared.
    """

    def __init__(self, memory: Memory, *, num_behind_window: CountUnseen = num_behind_window) -> None:
        self._memory = memory
        self._count_unseen = num_behind_window

    def check(self, holdings: Mapping[Hashable, Holding]) -> None:
        """Raise AssertionError unless every page and every row has exactly one owner and every length its place.

        An owner of a page is the free list, the open group of frees, the prefix cache, one request, or an export on its
        way whose request gave it back. Waiting requests own nothing and may be left out. An owner of an SWA page is the
        free list, the group or one owned page, and a position has an SWA slot from where its request's window begins.
        """
        self._check_pages(holdings)
        self._check_rows(holdings)
        self._check_swa(holdings)
        for name, holding in holdings.items():
            self._check_lengths(f"request {name}", holding)

    def _check_pages(self, holdings: Mapping[Hashable, Holding]) -> None:
        allocator, cache, size = self._memory.allocator, self._memory.cache, self._memory.page_size
        claims: Claims = [("the free list", allocator.free_pages)]
        claims.append(("the group of frees", _pages(allocator.freed_in_group, size)))
        claims.append(("the prefix cache", _pages(() if cache is None else cache.slots, size)))
        for name, holding in holdings.items():
            claims.append((f"request {name}", _pages(holding.slots[holding.books.num_protected :], size)))
        if self._memory.exports is not None:
            claims.append(("exports on their way", _pages(self._memory.exports.late, size)))
        what = "page" if size > 1 else "slot"
        _check_owners(what, range(1, allocator.num_slots // size), claims)
        handed_out = {page for owner, pages in claims[2:] for page in pages}
        require(
            handed_out == allocator.owned_pages, f"owned {what}s", sorted(allocator.owned_pages), sorted(handed_out)
        )

    def _check_rows(self, holdings: Mapping[Hashable, Holding]) -> None:
        rows: dict[int, list[Hashable]] = {}
        for name, holding in holdings.items():
            if holding.books.row:
                rows.setdefault(holding.books.row, []).append(name)
        shared = {row: names for row, names in rows.items() if len(names) > 1}
        require(not shared, "rows with two owners", shared, "none")
        owned = self._memory.rows.owned
        require(rows.keys() == owned, "owned rows", sorted(owned), sorted(rows))

    def _check_swa(self, holdings: Mapping[Hashable, Holding]) -> None:
        swa, size = self._memory.swa, self._memory.page_size
        if swa is None:
            return
        given = swa.swa_slots(range(floor_to(swa.num_slots, size)))
        claims: Claims = [("the free list", swa.swa.free_pages)]
        claims.append(("the group of frees", _pages(swa.swa.freed_in_group, size)))
        for page in range(swa.num_slots // size):
            of_page = list(given[page * size : page * size + size])
            first = of_page[0]
            expected = list(range(first, first + size)) if first else [0] * size
            require(of_page == expected and first % size == 0, f"SWA slots of page {page}", of_page, expected)
            if first:
                require(page in swa.owned_pages, f"owner of page {page}, which has SWA slots", "none", "one")
                claims.append((f"page {page}", (first // size,)))
        _check_owners("SWA page", range(1, swa.swa.num_slots // size), claims)
        for name, holding in holdings.items():
            self._check_window(f"request {name}", holding, [given[slot] > 0 for slot in holding.slots])

    def _check_window(self, what: str, holding: Holding, has_swa: Sequence[bool]) -> None:
        books, memory = holding.books, self._memory
        reachable = self._count_unseen(books.num_committed, memory.window, memory.page_size)
        evicted = holding.num_evicted
        require(evicted <= reachable, f"positions of {what} without SWA slots", evicted, f"at most {reachable}")
        lost = [place for place, is_there in enumerate(has_swa) if place >= reachable and not is_there]
        require(not lost, f"positions of {what} inside its window that lost their SWA slots", lost, "none")
        kept = [place for place in range(books.num_protected, evicted) if has_swa[place]]
        require(not kept, f"positions of {what} before its window that keep their SWA slots", kept, "none")

    def _check_lengths(self, what: str, holding: Holding) -> None:
        books, size = holding.books, self._memory.page_size
        lengths = (0, books.num_protected, books.num_committed, books.num_allocated, self._memory.row_width)
        ordered = all(one <= other for one, other in pairwise(lengths))
        require(
            ordered, f"cached, committed and allocated length of {what}", lengths[1:4], f"ascending to {lengths[-1]}"
        )
        require(len(holding.slots) == books.num_allocated, f"slots of {what}", len(holding.slots), books.num_allocated)
        require(books.row or not books.num_allocated, f"row of {what}", books.row, "one, as it has slots")
        require(books.num_protected % size == 0, f"cached length of {what}", books.num_protected, f"pages of {size}")
        cached = frozenset() if self._memory.cache is None else self._memory.cache.slots
        gone = [slot for slot in holding.slots[: books.num_protected] if slot not in cached]
        require(not gone, f"cached slots of {what} that the cache lacks", gone, "none")
        for position, slot in enumerate(holding.slots):
            first = holding.slots[position // size * size]
            expected = first // size * size + position % size
            require(slot == expected, f"slot of position {position} of {what}", slot, expected)


def _check_owners(what: str, everything: range, claims: Claims) -> None:
    """Raise AssertionError at the first page that has no owner or several, or that no one can own."""
    claimed = [page for _, pages in claims for page in pages]
    if len(claimed) == len(everything) and set(claimed) == set(everything):
        return
    owners: dict[int, list[str]] = {}
    for owner, pages in claims:
        for page in pages:
            owners.setdefault(page, []).append(owner)
    for page in everything:
        owned_by = owners.pop(page, [])
        require(len(owned_by) == 1, f"owners of {what} {page}", owned_by or "none", "one")
    require(not owners, f"{what}s that no one can own", owners, "none")


def _pages(slots: Iterable[int], page_size: int) -> tuple[int, ...]:
    """Return the pages of slots, each once."""
    return tuple(dict.fromkeys(slot // page_size for slot in slots))
