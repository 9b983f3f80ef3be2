"""The arrays of this layer: NumPy's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def from_numpy(value: Array) -> Array:
    """Return the array as it is."""
    return value


def to_numpy(value: Array) -> Array:
    """Return the array as it is."""
    return np.asarray(value)
