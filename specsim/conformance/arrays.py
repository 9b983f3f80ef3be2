"""The arrays of this layer: NumPy's."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.extents import Extent
from specsim.contracts.kinds import extent_of_ndarray

Array = NDArray[Any]

KIND = "numpy"
"""What a module says as its ``ARRAYS`` to be called with these; it is the default."""


def from_numpy(value: Array) -> Array:
    """Return the array as it is."""
    return value


def to_numpy(value: Array) -> Array:
    """Return the array as it is, or what an object becomes as an array: arrays of other libraries have ``__array__``.

    Raises
    ------
    TypeError
        It hides entries, and would be compared by those that its mask hides.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array is no array of the contract: its mask hides entries")
    return np.asarray(value)


def extent_of(value: Array) -> Extent:
    """Return where an array lies in memory."""
    return extent_of_ndarray(value)


def poisoned_outputs(pattern: int) -> AbstractContextManager[None]:
    """Do nothing: NumPy outputs are allocated by the implementation."""
    del pattern
    return nullcontext()


def debugging(is_on: bool = True) -> AbstractContextManager[None]:
    """Do nothing: entries are always checked."""
    del is_on
    return nullcontext()


def keep(value: Array) -> Array:
    """Return a copy that later writes do not reach.

    Raises
    ------
    TypeError
        It is no array.
    """
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} is no array")
    return value.copy(order="C")


def fetch(kept: Array) -> Array:
    """Return a copy that was kept."""
    return kept


def is_capturing() -> bool:
    """Return False: calls on NumPy arrays are made when they are made."""
    return False


def device_error() -> str:
    """Return nothing: no error of NumPy outlives its call."""
    return ""
