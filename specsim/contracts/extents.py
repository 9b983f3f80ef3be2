"""Where arrays lie, and which of them share memory: addresses are compared, entries are never read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

_MOST_WORK: Any = 10_000
"""Steps that the exact test of two interleaved arrays may take; what it cannot decide counts as shared."""


class Extent(NamedTuple):
    """The address of an array's first entry, sizes, bytes from entry to entry, bytes of an entry."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    is_read_only: bool = False


def bounds_of(extent: Extent) -> tuple[int, int]:
    """Return the first byte of an array and the one after its last; equal for an array without entries."""
    start = stop = extent.address
    for size, stride in zip(extent.shape, extent.strides, strict=True):
        if size == 0:
            return start, start
        if stride < 0:
            start += (size - 1) * stride
        else:
            stop += (size - 1) * stride
    return start, stop + extent.itemsize


def merge_bounds(bounds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return parts of memory in order, one for those that overlap, without empty ones."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(bounds):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        elif start < stop:
            merged.append((start, stop))
    return merged


def pairs_sharing(extents: Sequence[Extent], is_written: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the places of two arrays that share memory and of which one is written.

    An array that is written and of which two entries share an address makes a pair with itself.
    """
    reached: list[tuple[int, int]] = []
    bounds = [bounds_of(extent) for extent in extents]
    for place in sorted((place for place, (start, stop) in enumerate(bounds) if stop > start), key=bounds.__getitem__):
        if is_written[place] and overlaps_itself(extents[place]):
            yield place, place
        reached = [(stop, before) for stop, before in reached if stop > bounds[place][0]]
        for _, before in reached:
            if (is_written[before] or is_written[place]) and overlap(extents[before], extents[place]):
                yield min(before, place), max(before, place)
        reached.append((bounds[place][1], place))


def overlap(one: Extent, other: Extent) -> bool:
    """Return whether two arrays, neither of them empty, share a byte."""
    (start, stop), (start_of_other, stop_of_other) = bounds_of(one), bounds_of(other)
    if stop <= start_of_other or stop_of_other <= start:
        return False
    if _are_columns(one, start, other, start_of_other):
        return False
    try:
        return bool(np.shares_memory(_shadow(one), _shadow(other), max_work=_MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(extent: Extent) -> bool:
    """Return whether two entries may have one address: some stride is shorter than what it steps over."""
    steps = sorted((abs(stride), size) for stride, size in zip(extent.strides, extent.shape, strict=True) if size > 1)
    reach = extent.itemsize
    for stride, size in steps:
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def _are_columns(one: Extent, start: int, other: Extent, start_of_other: int) -> bool:
    """Return whether two arrays are columns of one table: steps of one length, and each within its part of a step."""
    if not one.strides or not other.strides or one.strides[0] != other.strides[0] or one.strides[0] <= 0:
        return False
    step = one.strides[0]
    width, width_of_other = _row_bytes(one), _row_bytes(other)
    offset = (start_of_other - start) % step
    return offset >= width and step - offset >= width_of_other


def _row_bytes(extent: Extent) -> int:
    start, stop = bounds_of(extent._replace(shape=extent.shape[1:], strides=extent.strides[1:]))
    return stop - start


class _Addresses:
    """The bytes of an extent as NumPy understands them, without their memory."""

    def __init__(self, extent: Extent) -> None:
        self.__array_interface__: dict[Literal["data", "shape", "strides", "typestr", "version"], object] = {
            "data": (extent.address, True),
            "shape": (*extent.shape, extent.itemsize),
            "strides": (*extent.strides, 1),
            "typestr": "|u1",
            "version": 3,
        }


def _shadow(extent: Extent) -> Any:
    """Return an array of bytes at those addresses, which is never read: they may be another device's."""
    return np.asarray(_Addresses(extent))
