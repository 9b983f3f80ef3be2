"""The content hash that names a case: its operation, its property, its arguments, and how they lay in memory."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from specsim.conformance.layouts import layout_of
from specsim.conformance.stored_laws import StoredLaw
from specsim.contracts.kinds import is_floating


def case_id(operation: str, property_name: str, arguments: Mapping[str, Any], law: StoredLaw | None = None) -> str:
    """Return the content hash that names a case; ``docs/case-format.md`` says what is hashed."""
    digest = hashlib.sha256(f"{operation}\n{property_name}".encode())
    for name, value in arguments.items():
        if isinstance(value, list | np.ndarray) or value is None:
            for label, array in labelled(name, value):
                digest.update(f"\n{label} {array.dtype.name} {list(array.shape)}{_in_words(array)}\n".encode())
                digest.update(_little_endian(array))
        else:
            digest.update(f"\n{name} {value}".encode())
    if law is not None:
        digest.update(f"\nlaw {law.as_text()}".encode())
    return digest.hexdigest()[:16]


def labelled(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of an argument with their names; none of an absent one."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield f"{name}.{index}", entry
    elif value is not None:
        yield name, value


def _in_words(array: Any) -> str:
    layout = layout_of(array)
    return "" if layout is None else f" {list(layout.strides)} {layout.offset} {layout.size}"


def _little_endian(array: Any) -> bytes:
    """Return the entries in C order, every NaN as the same one, because text knows but one."""
    if is_floating(array.dtype) and np.isnan(array).any():
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
