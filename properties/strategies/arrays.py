"""Bulk values from a drawn seed or entry by entry, a few adversarial overrides, and unusual memory layouts."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import DTypeLike, NDArray

from specsim.operations import RECORDS
from specsim.properties.composite import composite
from specsim.properties.strategies.numbers import Numbers, SeededNumbers, drawn_numbers, draws_entries

T = TypeVar("T")

Array = NDArray[Any]
Arguments = dict[str, Any]

MAX_REQUESTS = 6
LENGTH_DTYPES = ("int64", "int32")
VALUE_DTYPES = ("int64", "float64", "float32", "float16", "int32", "int8", "uint8")
LAYOUTS = ("contiguous", "gapped", "gapped", "offset", "transposed")


def mostly(usual: SearchStrategy[T], rare: SearchStrategy[T], one_in: int) -> SearchStrategy[T]:
    """Return a strategy that draws the rare kind about once in so many draws.

    NOTE: naming a strategy twice in ``one_of`` does not weight it, because equal branches are merged.
    """
    choices = (False,) * (one_in - 1) + (True,)
    return st.sampled_from(choices).flatmap(lambda is_rare: rare if is_rare else usual)


def one_of_evenly(*strategies: SearchStrategy[T]) -> SearchStrategy[T]:
    """Return a strategy that draws each kind as often as any other, in short runs too.

    NOTE: in a run of two examples the second one differs from the first in its first choice, so a number that no one
    uses is drawn before.
    """
    return st.integers(0, 2**16).flatmap(lambda _: st.one_of(*strategies))


class Bulk:
    """Array values from one source of numbers; zeros of it give the least value everywhere: cases shrink towards it."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def integers(self, shape: int | tuple[int, ...], low: int, high: int, dtype: DTypeLike = np.int64) -> Array:
        """Return whole numbers from ``low`` to ``high``, both included."""
        return self._numbers.integers(shape, low, high).astype(dtype)

    def integer(self, low: int, high: int) -> int:
        """Return one whole number."""
        return int(self.integers(1, low, high)[0])

    def eighths(self, shape: int | tuple[int, ...], low: int = 0, high: int = 8) -> Array:
        """Return float32 multiples of 1/8: products of a few of them are exact, and ties are common."""
        return (self.integers(shape, low, high) / np.float32(8)).astype(np.float32)

    def order(self, count: int) -> Array:
        """Return the numbers below ``count`` in some order."""
        return self._numbers.order(count)

    def values(self, shape: tuple[int, ...], dtype: str) -> Array:
        """Return values of any element type; no NaN, and every bit pattern of an integer can occur."""
        if dtype.startswith("float"):
            fine = 2.0**-40 if dtype == "float64" else 0.0
            return (self.integers(shape, -512, 512) / 8 + fine).astype(dtype)
        bounds = np.iinfo(dtype)
        return self.integers(shape, max(bounds.min, 0), bounds.max, dtype)


def seeded(seed: int) -> Bulk:
    """Return the bulk values of a seed; seed 0 gives the least value everywhere."""
    return Bulk(SeededNumbers(seed))


def bulk() -> SearchStrategy[Bulk]:
    """Return a source of bulk values: of one drawn seed, or of bytes that are drawn for each entry."""
    return _ENTRY_WISE if draws_entries() else _SEEDED


# NOTE: made once, as they are drawn from for nearly every array.
_SEEDED = st.integers(0, 2**32 - 1).map(seeded)
_ENTRY_WISE = drawn_numbers().map(Bulk)


@composite
def overridden(draw: DrawFn, values: Array, specials: Sequence[Any]) -> Array:
    """Replace up to three entries of an array by special values."""
    changed = values.copy()
    if changed.size and draw(st.booleans()):
        for place, special in draw(st.lists(st.tuples(st.integers(0, 2**16), st.sampled_from(specials)), max_size=3)):
            changed.reshape(-1)[place % changed.size] = special
    return changed


def in_layout(values: Array, layout: str) -> Array:
    """Return an array of equal values whose memory is laid out otherwise; what lies between is garbage."""
    if layout == "contiguous" or values.ndim == 0:
        return values
    garbage = values.dtype.type(1)
    if layout == "transposed" and values.ndim > 1:
        return np.ascontiguousarray(values.swapaxes(0, 1)).swapaxes(0, 1)
    if layout == "offset":
        wide = np.full((values.shape[0] + 3, *values.shape[1:]), garbage)
        wide[2:-1] = values
        return wide[2:-1]
    wide = np.full((*values.shape[:-1], 2 * values.shape[-1] + 1), garbage)
    wide[..., 1::2] = values
    return wide[..., 1::2]


@composite
def any_layout(draw: DrawFn, operation: str, arguments: Mapping[str, Any]) -> Arguments:
    """Return the same call with some of its arrays as strided views or views at an offset."""
    laid_out = dict(arguments)
    for spec in RECORDS[operation].contract.arrays:
        value = laid_out[spec.name]
        if value is not None and spec.each is None:
            laid_out[spec.name] = in_layout(value, draw(st.sampled_from(LAYOUTS)))
        elif value is not None:
            chosen = draw(st.lists(st.sampled_from(LAYOUTS), min_size=len(value), max_size=len(value)))
            laid_out[spec.name] = [in_layout(entry, layout) for entry, layout in zip(value, chosen, strict=True)]
    return laid_out


def is_strided(value: Any) -> bool:
    """Return whether an array, or one array of a list, is no plain C-ordered block."""
    if isinstance(value, list | tuple):
        return any(is_strided(entry) for entry in value)
    return isinstance(value, np.ndarray) and not value.flags.c_contiguous
