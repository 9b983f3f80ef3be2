"""Fields of phases: what the operations say of an array is said again nowhere.

A phase hands over what operations return and take. Its contract names the operation that states the array, and at most
narrows it: another name, one of the dtypes, axes of the phase's own, or optional.
"""

import re
from dataclasses import replace

from specsim.assertion import require_kind
from specsim.contracts.contract import ArraySpec
from specsim.operations import TABLE

_NAMED_DTYPE = re.compile(r"'(\w+)'")


def array_of(
    operation: str,
    array: str,
    name: str | None = None,
    *,
    dtype: str | None = None,
    axes: tuple[str, ...] | None = None,
    optional: bool = False,
) -> ArraySpec:
    """Return the spec of an array that an operation takes or returns as a field of a phase.

    Parameters
    ----------
    operation, array : str
        Whose argument or output it is.
    name : str or None
        Of the field; None for that of the array.
    dtype : str or None
        One of those that the operation allows; None for the only one.
    axes : tuple of str or None
        In the names of the phase; None for those of the operation.
    optional : bool
        Whether the field may be None.

    Raises
    ------
    ValueError
        The operation does not allow the dtype.
    """
    spec = require_kind(f"{operation}.{array}", TABLE[operation].contract.by_name[array], ArraySpec)
    return narrowed(spec, name, dtype=dtype, axes=axes, optional=optional)


def narrowed(
    spec: ArraySpec,
    name: str | None = None,
    *,
    dtype: str | None = None,
    axes: tuple[str, ...] | None = None,
    optional: bool = False,
) -> ArraySpec:
    """Return a spec that several operations share as a field of a phase; see ``array_of``."""
    allowed = _dtypes_of(spec)
    if dtype is not None and allowed is not None and dtype not in allowed:
        raise ValueError(f"{spec.name} as {dtype}, but should be {' or '.join(allowed)}")
    return replace(
        spec,
        name=name or spec.name,
        dtype=dtype or ("any" if allowed is None else spec.dtype),
        axes=axes or spec.axes,
        optional=optional,
    )


def _dtypes_of(spec: ArraySpec) -> tuple[str, ...] | None:
    """Return the dtypes that a spec allows; None for any, which includes that of another array."""
    if spec.dtype == "any" or spec.dtype.startswith("like "):
        return None
    return tuple(_NAMED_DTYPE.findall(spec.dtype)) if " " in spec.dtype else tuple(spec.dtype.split("|"))
