"""Where array values come from: one drawn seed for all of them, or bytes that are drawn for each.

With one seed drawing is fast, and the next seed gives other arrays altogether. With bytes of its own an entry can be
changed alone, which is what fuzzers live on that keep a buffer and change a little.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from math import prod
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from specsim.properties.composite import composite
from specsim.properties.inside import having

Array = NDArray[Any]

MOST_BYTES = 512
"""Bytes that are drawn for one source; entries beyond them use these again, so that Hypothesis has room for a batch."""

BLOCK = 32
"""Bytes that are drawn at once when those before are used up, unless more are needed."""

_DRAWS_ENTRIES: ContextVar[bool] = ContextVar("entries", default=False)


def drawing_entries(is_entry_wise: bool = True) -> AbstractContextManager[bool]:
    """Let strategies know, inside, whether each entry of an array is drawn on its own."""
    return having(_DRAWS_ENTRIES, is_entry_wise)


def draws_entries() -> bool:
    """Return whether each entry is drawn on its own."""
    return _DRAWS_ENTRIES.get()


class Numbers(Protocol):
    """A source of whole numbers and orders."""

    def integers(self, shape: int | tuple[int, ...], low: int, high: int) -> Array:
        """Return whole numbers from ``low`` to ``high``, both included."""
        ...

    def order(self, count: int) -> Array:
        """Return the numbers below ``count`` in some order."""
        ...


class SeededNumbers:
    """Numbers of one seed; those of seed 0 are the least, in their order."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed) if seed else None

    def integers(self, shape: int | tuple[int, ...], low: int, high: int) -> Array:
        """Return whole numbers from ``low`` to ``high``, both included."""
        if self._random is None:
            return np.full(shape, low)
        return self._random.integers(low, high, size=shape, endpoint=True)

    def order(self, count: int) -> Array:
        """Return the numbers below ``count`` in some order."""
        return np.arange(count) if self._random is None else self._random.permutation(count)


class DrawnNumbers:
    """Numbers of bytes that are drawn in blocks; those of zeros are the least, in their order.

    A number has as many bytes as its range needs, and the remainder of them decides: none is drawn again for being out
    of range, so that a byte that changes moves no other one.
    """

    def __init__(self, draw: DrawFn) -> None:
        self._draw = draw
        self._place = 0
        # NOTE: what a request needs is mostly drawn in its place, so that it can be left out of a smaller case.
        self._drawn = self._block(BLOCK)

    def integers(self, shape: int | tuple[int, ...], low: int, high: int) -> Array:
        """Return whole numbers from ``low`` to ``high``, both included."""
        span = int(high) - int(low) + 1
        count = prod(shape) if isinstance(shape, tuple) else shape
        raw = self._raw(count, ((span - 1).bit_length() + 7) // 8)
        # NOTE: offsets are added without a sign, and wrap around to where they belong.
        offsets = raw if span == 2**64 else raw % np.uint64(span)
        return (np.array(low).astype(np.int64).view(np.uint64) + offsets).view(np.int64).reshape(shape)

    def order(self, count: int) -> Array:
        """Return the numbers below ``count`` in some order; one byte that changes moves three of them at most."""
        numbers = np.arange(count)
        width = 1 if count <= 2**8 else 2
        ahead = self._raw(count, width) % np.arange(count, 0, -1, dtype=np.uint64)
        for place, distance in enumerate(ahead.tolist()):
            if distance:
                numbers[[place, place + distance]] = numbers[[place + distance, place]]
        return numbers

    def _raw(self, count: int, width: int) -> NDArray[np.uint64]:
        """Return so many numbers of so many bytes, the highest byte first."""
        octets = np.frombuffer(self._take(count * width), np.uint8).reshape(count, width).astype(np.uint64)
        raw = np.zeros(count, dtype=np.uint64)
        for column in range(width):
            raw = raw << np.uint64(8) | octets[:, column]
        return raw

    def _take(self, count: int) -> bytes:
        """Return so many bytes: drawn ones, then those that were drawn again, each time multiplied by another number.

        A product with an odd number keeps zeros, and loses nothing of the others.
        """
        if self._place + count > len(self._drawn) < MOST_BYTES:
            lacking = max(BLOCK, self._place + count - len(self._drawn))
            self._drawn += self._block(min(lacking, MOST_BYTES - len(self._drawn)))
        places = np.arange(self._place, self._place + count)
        self._place += count
        if self._place <= len(self._drawn):
            return self._drawn[self._place - count : self._place]
        factors = (1 + 2 * (places // MOST_BYTES)).astype(np.uint8)
        return bytes(np.frombuffer(self._drawn, np.uint8)[places % MOST_BYTES] * factors)

    def _block(self, size: int) -> bytes:
        return self._draw(st.binary(min_size=size, max_size=size))


class DrawnGenerator:
    """Numbers of bytes under the names that a generator of NumPy has for them."""

    def __init__(self, numbers: DrawnNumbers) -> None:
        self._numbers = numbers

    def integers(self, low: int, high: int, size: int | tuple[int, ...]) -> Array:
        """Return whole numbers from ``low`` to below ``high``."""
        return self._numbers.integers(size, low, high - 1)

    def random(self, size: int | tuple[int, ...]) -> Array:
        """Return multiples of 1/65536 from 0 to below 1."""
        return self._numbers.integers(size, 0, 2**16 - 1) / 2**16

    def permutation(self, values: int | Array) -> Array:
        """Return the numbers below a count, or the entries of an array with one axis, in some order."""
        entries = np.arange(values) if isinstance(values, int) else values
        return entries[self._numbers.order(len(entries))]


@composite
def _drawn_numbers(draw: DrawFn) -> DrawnNumbers:
    return DrawnNumbers(draw)


def drawn_numbers() -> SearchStrategy[DrawnNumbers]:
    """Return a strategy of sources that draw each number on its own."""
    return _drawn_numbers()


def generators() -> SearchStrategy[Any]:
    """Return a strategy of what laws fill their cases with: generators of NumPy, or what stands for them with bytes."""
    if draws_entries():
        return drawn_numbers().map(DrawnGenerator)
    return st.integers(0, 2**16).map(np.random.default_rng)
