"""What is carried to an implementation: plain scalars, lists, and copies of arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from specsim.assertion import require_present
from specsim.contracts.contract import ScalarSpec
from specsim.contracts.kinds import NUMPY
from specsim.contracts.memory import check_memory
from specsim.operations.record import Operation


def plain_scalar(spec: ScalarSpec, value: Any) -> Any:
    """Return a scalar of Python, the default for None."""
    if value is None:
        return spec.default
    return value.item() if isinstance(value, np.integer | np.bool_) else value


def as_list(value: Any) -> list[Any]:
    """Return the arrays of an argument, which is one or a list of them."""
    return list(value) if isinstance(value, list | tuple) else [value]


def copy_in_place(value: Any) -> Any:
    """Copy an array with its strides and offset, so that views stay views; share one that nobody can write."""
    if not isinstance(value, np.ndarray):
        return np.array(value, copy=True, order="K")
    if not value.flags.writeable:
        return value
    if not value.size or not isinstance(value.base, np.ndarray) or _is_whole(value, value.base):
        return np.array(value, copy=True, order="K")
    base = value.base.copy(order="K")
    offset = value.__array_interface__["data"][0] - value.base.__array_interface__["data"][0]
    # NOTE: the buffer protocol knows no bfloat16, so the memory is handed over as words of the same size.
    words = base.view(np.dtype(f"u{base.itemsize}"))
    return np.ndarray(value.shape, value.dtype, buffer=words.data, offset=offset, strides=value.strides)


def _is_whole(view: Any, block: Any) -> bool:
    """Return whether a view of a block is all of it, in its order."""
    return bool(view.nbytes == block.nbytes and view.flags.c_contiguous and block.flags.c_contiguous)


def check_written(record: Operation, arguments: Mapping[str, Any]) -> None:
    """Refuse NumPy arrays that could not all be written; a layer that gets copies cannot see it."""
    if not record.contract.writes:
        return
    for spec in record.contract.arrays:
        value = arguments[spec.name]
        entries = value if isinstance(value, list | tuple) else (value,)
        if any(entry is not None and not isinstance(entry, np.ndarray) for entry in entries):
            return
    check_memory(record.name, record.contract, require_present("memory of NumPy", NUMPY.memory), arguments)
