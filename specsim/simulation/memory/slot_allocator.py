"""Slots one by one: page size 1."""

from collections.abc import Sequence

from specsim.simulation.memory.pages import PagedAllocator


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
