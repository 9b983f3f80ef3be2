"""Where the entries of an array lie in memory: views with gaps, offsets and swapped axes, as a case file keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_SPREAD = 1 << 28
"""Bytes of memory that a view may lie in; a view of more is kept as a plain array."""

MOST_ROOM = 4096
"""Entries of its block that are kept before and after a view."""

GARBAGE = 1
"""What lies between the entries of a view."""


@dataclass(frozen=True)
class Layout:
    """A view of a block of entries of its own type.

    Parameters
    ----------
    strides : tuple of int
        Entries from one to the next along each axis.
    offset : int
        Entries of the block before the first one of the view.
    size : int
        Entries of the block.
    """

    strides: tuple[int, ...]
    offset: int
    size: int

    def why_wrong(self, shape: Sequence[int], itemsize: int) -> str:
        """Return why no array of that shape, which has entries, can lie so, or nothing."""
        if len(self.strides) != len(shape):
            return f"with {len(self.strides)} strides for {len(shape)} axes"
        if not 0 <= self.size * itemsize <= MOST_SPREAD:
            return f"of a block of {self.size} entries"
        reaches = [stride * (size - 1) for stride, size in zip(self.strides, shape, strict=True)]
        first = self.offset + sum(reach for reach in reaches if reach < 0)
        last = self.offset + sum(reach for reach in reaches if reach > 0)
        if not 0 <= first <= last < self.size:
            return f"of a view from entry {first} to {last} of {self.size}"
        if max(first, self.size - 1 - last) > MOST_ROOM or any(abs(stride) > self.size for stride in self.strides):
            return f"with more than {MOST_ROOM} entries around the view, or a stride beyond its block"
        return ""


def layout_of(array: Any) -> Layout | None:
    """Return how an array lies, or None where it is a plain block of its own, or cannot be kept."""
    strides, size = array.strides, array.itemsize
    if not array.size or any(stride % size for stride in strides):
        return None
    reaches = [stride * (count - 1) for stride, count in zip(strides, array.shape, strict=True)]
    first: int = array.__array_interface__["data"][0]
    begin = first + sum(reach for reach in reaches if reach < 0)
    end = first + sum(reach for reach in reaches if reach > 0) + size
    before, after = _room_around(array.base, begin, end)
    if array.flags.c_contiguous and not before // size and not after // size:
        return None
    begin -= min(before // size, MOST_ROOM) * size
    end += min(after // size, MOST_ROOM) * size
    room = (end - begin) // size
    # NOTE: along an axis of one entry a stride says nothing, and may be one of a block that is not kept whole.
    steps = tuple(stride // size if abs(stride // size) <= room else 0 for stride in strides)
    layout = Layout(steps, (first - begin) // size, room)
    return None if layout.why_wrong(array.shape, size) else layout


def lay_out(values: Any, layout: Layout) -> Any:
    """Return an array of equal values that lies so; None where entries share an address and differ."""
    size = values.itemsize
    # NOTE: no buffer knows bfloat16, so that a block is made of words of its size.
    block = np.full(layout.size, GARBAGE, dtype=values.dtype).view(f"u{size}")
    strides = tuple(stride * size for stride in layout.strides)
    view: Any = np.ndarray(values.shape, values.dtype, buffer=block, offset=layout.offset * size, strides=strides)
    view[...] = values
    return view if view.tobytes() == values.tobytes() else None


def _room_around(block: Any, begin: int, end: int) -> tuple[int, int]:
    """Return the bytes of a block before and after a view of it; none where it is no block of NumPy's."""
    if not isinstance(block, np.ndarray):
        return 0, 0
    start: int = block.__array_interface__["data"][0]
    stop = start + block.nbytes
    return (begin - start, stop - end) if block.flags.c_contiguous and start <= begin and end <= stop else (0, 0)
