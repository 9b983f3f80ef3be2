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
    has, wider = (_numbered(cells, size) for size in (strength, strength + 1))
    is_left, is_wider_left = (np.ones(table.max() + 1, dtype=np.bool_) for table in (has, wider))
    taken: list[Cell] = []
    while is_left.any():
        scores = is_left[has].sum(axis=1) * (wider.shape[1] + 1) + is_wider_left[wider].sum(axis=1)
        best = int(scores.argmax())
        taken.append(cells[best])
        is_left[has[best]], is_wider_left[wider[best]] = False, False
    return taken


def _numbered(cells: Sequence[Cell], strength: int) -> NDArray[np.int64]:
    """Return the combinations of each cell, int64 [cell, combination], as numbers from 0 without gaps."""
    known: list[dict[Value, int]] = [{} for _ in NAMES]
    rows = [[of.setdefault(value, len(of)) for of, value in zip(known, cell.values, strict=True)] for cell in cells]
    columns = np.array(rows, dtype=np.int64).T
    tables: list[NDArray[np.int64]] = []
    first = 0
    for places in combinations(range(len(NAMES)), strength):
        chosen = np.zeros(len(cells), dtype=np.int64)
        for place in places:
            chosen = chosen * len(known[place]) + columns[place]
        distinct, numbers = np.unique(chosen, return_inverse=True)
        tables.append(numbers + first)
        first += len(distinct)
    return np.stack(tables, axis=1)


def smallest_absent(cells: Sequence[Cell], allowed: Sequence[Cell]) -> list[Combination]:
    """Return combinations that no allowed cell has, but some cell, and no part of which is such a combination.

    They are all of them up to three values, and of more values as many as it takes to find one in every missing cell.
    """
    present_cells = set(allowed)
    missing = [cell for cell in dict.fromkeys(cells) if cell not in present_cells]
    found: list[Combination] = []
    for strength in range(1, len(NAMES) + 1):
        if strength > ALL_UP_TO:
            missing = [cell for cell in missing if not any(has_combination(cell, part) for part in found)]
        if not missing:
            break
        present = occurring(allowed, strength)
        candidates = dict.fromkeys(one for cell in missing for one in combinations_of(cell, strength))
        absent = [one for one in candidates if one not in present and not any(_is_part(part, one) for part in found)]
        found.extend(absent)
    return found


def has_combination(cell: Cell, combination: Combination) -> bool:
    """Return whether a cell has every value of a combination."""
    return all(vars(cell)[name] == value for name, value in combination)


def _is_part(part: Combination, whole: Combination) -> bool:
    return all(one in whole for one in part)
