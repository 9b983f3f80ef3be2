"""Rows of the request-to-token map."""

from collections.abc import Iterable

from specsim.simulation.memory.free_list import FreeList


class RowAllocator:
    """Rows 1 … ``num_rows−1``, one a request; row 0 is for padding.

    Parameters
    ----------
    num_rows : int
        Rows of the map, row 0 included.
    shuffle_seed : int or None
        Start with a shuffled order.
    """

    def __init__(self, num_rows: int, shuffle_seed: int | None = None) -> None:
        self._rows = FreeList(num_rows, "row", shuffle_seed)

    @property
    def num_free(self) -> int:
        """Rows that can be handed out."""
        return len(self._rows)

    @property
    def owned(self) -> frozenset[int]:
        """Rows that a request has."""
        return frozenset(self._rows.owned)

    def allocate(self, count: int) -> list[int]:
        """Hand out the first rows."""
        return self._rows.take(count)

    def free(self, rows: Iterable[int]) -> None:
        """Take rows back, after those that are free."""
        returned = list(rows)
        self._rows.require_owned(returned)
        self._rows.append(returned)
