"""Few cells in which every allowed combination of two or three values occurs, and what is not allowed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from specsim.properties.matrix.factors import NAMES, Cell, Value

ALL_UP_TO = 3
"""Values of a combination up to which everything absent is listed: as many as a profile covers."""

Combination = tuple[tuple[str, Value], ...]
"""Values of some factors, in the order of the factors."""


def combinations_of(cell: Cell, strength: int) -> Iterator[Combination]:
    """Yield every choice of so many values of a cell."""
    return combinations(zip(NAMES, cell.values, strict=True), strength)


def occurring(cells: Iterable[Cell], strength: int) -> set[Combination]:
    """Return every combination of so many values that some cell has."""
    return {one for cell in cells for one in combinations_of(cell, strength)}


def cover(cells: Sequence[Cell], strength: int) -> list[Cell]:
    """Return some of the cells in which every combination occurs that occurs in all of them.

    One after another is taken that has most of the combinations that are left; where several have, most of those of one
    value more, so that the values which a cell is free in differ; where several have still, the first of them.
    """
    coded = Coded(cells)
    has, wider = (coded.combinations(size) for size in (strength, strength + 1))
    weight = wider.shape[1] + 1
    scores = np.full(len(cells), has.shape[1] * weight + wider.shape[1])
    left, wider_left = _Left(has), _Left(wider)
    taken: list[Cell] = []
    while left.number:
        best = int(scores.argmax())
        taken.append(cells[best])
        for cells_of_one in left.take(best):
            scores[cells_of_one] -= weight
        for cells_of_one in wider_left.take(best):
            scores[cells_of_one] -= 1
    return taken


class _Left:
    """The combinations that no cell taken has, of a table of them by cell, and which cells have each."""

    def __init__(self, table: NDArray[np.int64]) -> None:
        self._table = table
        self._is_left = np.ones(table.max() + 1, dtype=np.bool_)
        self._cells = np.argsort(table, axis=None, kind="stable") // table.shape[1]
        self._ends = np.cumsum(np.bincount(table.reshape(-1)))
        self.number = len(self._is_left)

    def take(self, cell: int) -> Iterator[NDArray[np.int64]]:
        """Yield the cells that have a combination, for each that is left of those of one cell, and leave it no more."""
        for one in self._table[cell][self._is_left[self._table[cell]]]:
            yield self._cells[self._ends[one - 1] if one else 0 : self._ends[one]]
            self._is_left[one] = False
            self.number -= 1


class Coded:
    """Cells as numbers of their values."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._known: list[dict[Value, int]] = [{} for _ in NAMES]
        rows = [
            [of.setdefault(value, len(of)) for of, value in zip(self._known, cell.values, strict=True)]
            for cell in cells
        ]
        self._columns = np.array(rows, dtype=np.int64).reshape(len(cells), len(NAMES)).T

    def combinations(self, strength: int) -> NDArray[np.int64]:
        """Return the combinations of each cell, int64 [cell, combination], as numbers from 0 without gaps."""
        tables: list[NDArray[np.int64]] = []
        first = 0
        for places in combinations(range(len(NAMES)), strength):
            chosen = np.zeros(self._columns.shape[1], dtype=np.int64)
            for place in places:
                chosen = chosen * len(self._known[place]) + self._columns[place]
            distinct, numbers = np.unique(chosen, return_inverse=True)
            tables.append(numbers + first)
            first += len(distinct)
        return np.stack(tables, axis=1)

    def number_of(self, strength: int) -> int:
        """Return how many combinations of so many values occur."""
        return int(self.combinations(strength).max(initial=-1)) + 1

    def having(self, combination: Combination) -> NDArray[np.bool_]:
        """Return, bool [cell], which cells have every value of a combination."""
        found = np.ones(self._columns.shape[1], dtype=np.bool_)
        for name, value in combination:
            place = NAMES.index(name)
            found &= self._columns[place] == self._known[place].get(value, -1)
        return found


def smallest_absent(cells: Sequence[Cell], allowed: Sequence[Cell]) -> list[Combination]:
    """Return combinations that no allowed cell has, but some cell, and no part of which is such a combination.

    They are all of them up to three values, and of more values as many as it takes to find one in every missing cell.
    """
    distinct = list(dict.fromkeys([*cells, *allowed]))
    coded, present_cells = Coded(distinct), set(allowed)
    is_allowed = np.array([cell in present_cells for cell in distinct], dtype=np.bool_)
    is_missing = ~is_allowed
    found: list[Combination] = []
    for strength in range(1, len(NAMES) + 1):
        if strength > ALL_UP_TO:
            for part in found:
                is_missing &= ~coded.having(part)
        missing = np.flatnonzero(is_missing)
        if not len(missing):
            break
        table = coded.combinations(strength)
        is_absent = np.ones(table.max() + 1, dtype=np.bool_)
        is_absent[table[is_allowed]] = False
        # The first cell and place of each, in their order.
        numbers, places = np.unique(table[missing], return_index=True)
        for place in np.sort(places[is_absent[numbers]]):
            cell = distinct[missing[place // table.shape[1]]]
            one = tuple(combinations_of(cell, strength))[place % table.shape[1]]
            if not any(_is_part(part, one) for part in found):
                found.append(one)
    return found


def _is_part(part: Combination, whole: Combination) -> bool:
    return all(one in whole for one in part)
