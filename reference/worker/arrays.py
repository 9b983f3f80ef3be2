"""NumPy's arrays for what both layers run; see ``specsim.simulation.draft_sides.layer.ArrayLibrary``."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import KIND, Array, to_numpy
from specsim.reference.worker.compact import compact
from specsim.simulation.draft_sides.trees import choose_beams, plant_trees

arange, concat, full, where, zeros = np.arange, np.concatenate, np.full, np.where, np.zeros

__all__ = [
    "KIND",
    "arange",
    "asarray",
    "astype",
    "choose_beams",
    "compact",
    "concat",
    "copy",
    "full",
    "owners_of",
    "plant_trees",
    "repeat",
    "take",
    "to_numpy",
    "where",
    "zeros",
]


def asarray(values: Array | Sequence[int], dtype: str = "int64") -> Array:
    """Return numbers as an array."""
    return np.array(values, dtype=dtype)


def astype(values: Array, dtype: str) -> Array:
    """Return a copy with elements of another type."""
    return values.astype(dtype)


def repeat(values: Array, count: int) -> Array:
    """Return every entry along the first axis so many times, one after another."""
    return np.repeat(values, count, axis=0)


def take(values: Array, places: Array) -> Array:
    """Return entries along the first axis."""
    return values[places]


def copy(values: Array) -> Array:
    """Return a copy."""
    return values.copy()


def owners_of(starts: Array, count: int) -> Array:
    """Return int64 [count]: the run of entries that each of ``count`` entries is in."""
    owners: Array = np.searchsorted(starts, np.arange(count), side="right") - 1
    return owners
