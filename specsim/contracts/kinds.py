"""What identifies an array: its class, its shape, its element type, and the place that all arrays of a call share.

Nothing here reads entries. A layer says with an ``ArrayKind`` on what arrays it computes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from specsim.contracts.extents import Extent

Form = tuple[Any, ...]
"""Class, shape and element type of an array; the class alone of anything else."""

_BLOCK = 0x001 | 0x400
"""Flags of an array of NumPy that is one writable block: contiguous in the order of C, and writable."""


@dataclass(frozen=True)
class Memory:
    """How a library says where an array lies.

    ``block_of`` returns the first byte of an array and the one after its last if it is one writable block, else None.
    ``owner_of`` returns who allocated the memory of such a block, None where that is not known: blocks of different
    owners lie apart, and no address has to be asked for, which takes longer than some calls.
    """

    extent_of: Callable[[Any], Extent]
    block_of: Callable[[Any], tuple[int, int] | None]
    owner_of: Callable[[Any], object | None] = lambda array: None


@dataclass(frozen=True, eq=False)
class ArrayKind:
    """On what arrays a layer computes.

    Parameters
    ----------
    name : str
        What a rejection asks for.
    base : type
        The class of the arrays.
    because : str or None
        Why it must be that class; by default the contract says so.
    attribute : str
        The attribute that names the place of an array, equal for all arrays of a call; empty if there is but one place.
    is_reachable : callable
        Whether the layer can compute at a place.
    reachable : str
        Where it can, in words.
    memory : Memory or None
        Finds out where an array lies; without it no arguments are checked for overlap.
    addresses : bool
        Whether keys of calls hold how arrays lie: they have the methods of torch's tensors then.
    symbols : tuple of type
        Classes of integers that are not known yet, which tracers have; a scalar of one stays what it is.
    """

    name: str
    base: type = object
    because: str | None = None
    attribute: str = ""
    is_reachable: Callable[[Any], bool] = lambda place: True
    reachable: str = "anywhere"
    memory: Memory | None = None
    addresses: bool = False
    symbols: tuple[type, ...] = ()


class Scattered(NamedTuple):
    """Two arrays of one call that lie in different places."""

    first: str
    place: Any
    other: str
    elsewhere: Any


def form_of(value: Any) -> Form | None:
    """Return what identifies an argument, whatever it is; None for None."""
    if value is None:
        return None
    try:
        return value.__class__, value.shape, value.dtype
    except AttributeError:
        return (value.__class__,)


def is_array(form: Form | None) -> bool:
    """Return whether a form is that of a plain array; subclasses of NumPy's array have rules of their own."""
    if form is None or len(form) != 3 or not isinstance(form[1], tuple):
        return False
    return form[0] is np.ndarray or not issubclass(form[0], np.ndarray)


def dtype_name(value: Any) -> str:
    """Return ``int32`` for a NumPy or torch array of that element type."""
    return name_of_dtype(value.dtype)


@lru_cache(maxsize=1024)
def name_of_dtype(dtype: Any) -> str:
    """Return the name that an element type has in every library."""
    return str(dtype).removeprefix("torch.")


def is_floating(dtype: Any) -> bool:
    """Return whether a NumPy element type is a floating type; that of ``ml_dtypes`` is one that NumPy calls void."""
    return bool(dtype.kind == "f" or dtype.name == "bfloat16")


def extent_of_ndarray(array: Any) -> Extent:
    """Return where an array of NumPy lies."""
    interface = array.__array_interface__
    address, is_read_only = interface["data"]
    return Extent(address, array.shape, array.strides, array.itemsize, is_read_only)


def _block_of_ndarray(array: Any) -> tuple[int, int] | None:
    if array.flags.num & _BLOCK != _BLOCK:
        return None
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def _owner_of_ndarray(array: Any) -> object | None:
    """Return the array that allocated the memory of a block: a view says of whom it is one."""
    if array.flags.num & _BLOCK != _BLOCK:
        return None
    owner = array if array.base is None else array.base
    return owner if isinstance(owner, np.ndarray) and owner.flags.owndata else None


ANY = ArrayKind("array")
"""Arrays of any library."""

NUMPY = ArrayKind("ndarray", base=np.ndarray, memory=Memory(extent_of_ndarray, _block_of_ndarray, _owner_of_ndarray))
"""The arrays of the oracle."""
