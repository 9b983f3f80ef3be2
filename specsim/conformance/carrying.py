"""What is carried to an implementation: plain scalars, lists, and copies of arrays."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.conformance.layouts import MOST_ROOM
from specsim.conformance.plain_text import first_line
from specsim.contracts.contract import ArraySpec, ScalarSpec
from specsim.contracts.faults import MOST_OUTPUT_BYTES, reject
from specsim.contracts.kinds import NUMPY
from specsim.contracts.memory import check_memory
from specsim.operations.record import Operation
from specsim.rejection import Reason, SpecRejection

MOST_SPARSE = 16
"""Entries of memory for each entry of a view, beyond which only the entries are copied."""


class Masked(TypeError):
    """An array hides some of its entries."""


def plain_scalar(spec: ScalarSpec, value: Any) -> Any:
    """Return a scalar of Python, the default for None."""
    if value is None:
        return spec.default
    return value.item() if isinstance(value, np.integer | np.bool_) else value


def as_list(value: Any) -> list[Any]:
    """Return the arrays of an argument, which is one or a list of them."""
    return list(value) if isinstance(value, list | tuple) else [value]


def labelled(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of an argument with their names; none of an absent one."""
    if isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield f"{name}.{index}", entry
    elif value is not None:
        yield name, value


def copy_in_place(value: Any) -> Any:
    """Copy an array with its strides and offset, so that views stay views; share a read-only one.

    Of the block that a view lies in only what is near the view is copied. A view whose entries lie far apart is copied
    without what lies between.

    Raises
    ------
    MemoryError
        The entries of an array do not fit in memory.
    """
    if not isinstance(value, np.ndarray):
        return np.array(value, copy=True, order="K")
    if type(value) is not np.ndarray:
        if isinstance(value, np.ma.MaskedArray):
            raise Masked
        value = value.view(np.ndarray)
    # NOTE: a broadcast array may have more entries than any memory, all of them at a few addresses.
    if value.nbytes > MOST_OUTPUT_BYTES:
        raise MemoryError(f"{value.nbytes} bytes")
    if not value.flags.writeable:
        return value
    block = value.base
    if (
        not isinstance(block, np.ndarray)
        or not value.size
        or not block.flags.c_contiguous
        or block.dtype != value.dtype
    ):
        return np.array(value, copy=True, order="K")
    if value.nbytes == block.nbytes and value.flags.c_contiguous:
        return np.array(value, copy=True, order="K")
    return _copy_near(value, block if type(block) is np.ndarray else block.view(np.ndarray))


def _copy_near(view: Any, block: Any) -> Any:
    """Copy a view of a block of the same element type, with its strides, and what is near it in the block."""
    size, entries = view.itemsize, view.size
    start, skew = divmod(view.__array_interface__["data"][0] - block.__array_interface__["data"][0], size)
    first = last = start
    for stride, count in zip(view.strides, view.shape, strict=True):
        skew |= stride % size
        if stride < 0:
            first += stride // size * (count - 1)
        else:
            last += stride // size * (count - 1)
    room = min(entries, MOST_ROOM)
    first, last = max(first - room, 0), last + 1 + room
    if skew or last - first > MOST_SPARSE * entries + MOST_ROOM:
        return np.array(view, copy=True, order="K")
    near = block.reshape(-1)[first:last].copy()
    # NOTE: the buffer protocol knows no bfloat16, so the memory is handed over as words of the same size.
    memory = near if view.dtype.isbuiltin else near.view(f"u{size}")
    return np.ndarray(view.shape, view.dtype, buffer=memory, offset=(start - first) * size, strides=view.strides)


def check_written(record: Operation, arguments: Mapping[str, Any]) -> None:
    """Refuse a call whose outputs could not all be written into the arguments; a layer gets copies and cannot see it.

    Raises
    ------
    SpecRejection
        MISSING_ARGUMENT, WRONG_KIND: what is written is no array of NumPy; READ_ONLY, SHARED_MEMORY.
    """
    contract = record.contract
    if not contract.writes:
        return
    arrays: dict[str, Any] = {}
    for spec in contract.arrays:
        value = arguments[spec.name]
        if spec.each is not None and isinstance(value, list | tuple):
            arrays[spec.name] = [entry for entry in value if isinstance(entry, np.ndarray)]
            is_writable = len(arrays[spec.name]) == len(value)
        else:
            arrays[spec.name] = value if spec.each is None and isinstance(value, np.ndarray) else None
            is_writable = value is None or arrays[spec.name] is not None
        if spec.name in contract.writes and not is_writable:
            raise _not_writable(record.name, spec, value)
    check_memory(record.name, contract, require_present("memory of NumPy", NUMPY.memory), arrays)


def _not_writable(name: str, spec: ArraySpec, value: Any) -> SpecRejection:
    """Return the rejection of what cannot hold what is written into it."""
    place = next((place for place, one in enumerate(as_list(value)) if not isinstance(one, np.ndarray)), None)
    is_list = spec.each is not None and isinstance(value, list | tuple)
    label, given = (f"{spec.name}[{place}]", as_list(value)[place or 0]) if is_list else (spec.name, value)
    expected = "an ndarray" if is_list or spec.each is None else "a list of ndarrays"
    return reject(Reason.WRONG_KIND, label, type(given).__name__, expected, name, "its entries are written")


def why_not_carried(record: Operation, arguments: Mapping[str, Any], carry: Callable[[Any], Any]) -> SpecRejection:
    """Return the rejection of a call of which some argument cannot be carried to a layer.

    Parameters
    ----------
    carry : callable
        Carries an argument, and raises something where it cannot.
    """
    for spec in record.contract.arrays:
        value = arguments[spec.name]
        is_list = spec.each is not None and isinstance(value, list | tuple)
        for place, entry in enumerate(value if is_list else [value]):
            label = f"{spec.name}[{place}]" if is_list else spec.name
            try:
                carry(entry)
            except Exception as error:  # NOTE: a library may refuse an array in any way.
                return _not_carried(record.name, spec, label, entry, error)
    raise AssertionError("every argument is carried, but should not be")


def _not_carried(name: str, spec: ArraySpec, label: str, value: Any, error: Exception) -> SpecRejection:
    if isinstance(error, SpecRejection):
        return error
    given = type(value).__name__
    if isinstance(error, Masked):
        because = "what a mask hides would be read"
        return reject(Reason.WRONG_KIND, label, given, "a plain ndarray", name, because)
    if isinstance(error, MemoryError):
        sizes = f"{given} {list(getattr(value, 'shape', ()))}"
        expected = "an array that fits in memory"
        return reject(Reason.ARGUMENT_TOO_LARGE, label, sizes, expected, name, "a layer gets a copy")
    if isinstance(value, np.ndarray):
        expected = "one that the layer has" if spec.dtype == "any" else spec.dtype.replace("|", " or ")
        because = f"the copy fails: {first_line(error)}"
        return reject(Reason.WRONG_DTYPE, f"{label}.dtype", value.dtype, expected, name, because)
    expected = "an array" if spec.each is None else "a list of arrays"
    return reject(Reason.MISSING_ARGUMENT, label, given, expected, name)


def out_of_memory(record: Operation, error: MemoryError) -> SpecRejection:
    """Return the rejection of a call that a layer began and has no memory for."""
    what, expected = f"call of {record.name}", "one that fits in memory"
    return reject(Reason.OUTPUT_TOO_LARGE, what, "larger than memory", expected, record.name, first_line(error))
