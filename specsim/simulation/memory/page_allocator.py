"""Slots by pages: page size 2 and more."""

from collections.abc import Sequence

from specsim.rejection import contradiction
from specsim.simulation.memory.pages import PagedAllocator


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
