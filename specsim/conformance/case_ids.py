"""The content hash that names a case: its operation, its property, its arguments, and how they lay in memory."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from specsim.conformance.layouts import layout_of
from specsim.conformance.stored_laws import StoredLaw
from specsim.contracts.kinds import is_floating

ENTRIES_AT_ONCE = 1 << 20
"""Entries that are copied at a time."""


def case_id(operation: str, property_name: str, arguments: Mapping[str, Any], law: StoredLaw | None = None) -> str:
    """Return the content hash that names a case; ``docs/case-format.md`` says what is hashed."""
    digest = hashlib.sha256(f"{operation}\n{property_name}".encode())
    for name, value in arguments.items():
        if isinstance(value, list | np.ndarray) or value is None:
            for label, array in labelled(name, value):
                digest.update(f"\n{label} {array.dtype.name} {list(array.shape)}{_in_words(array)}\n".encode())
                for part in _little_endian(array):
                    digest.update(part)
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


def _little_endian(array: Any) -> Iterator[bytes]:
    """Yield the entries in C order, every NaN as the same one, because text knows but one."""
    entries = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, len(entries), ENTRIES_AT_ONCE):
        some = entries[start : start + ENTRIES_AT_ONCE]
        if is_floating(some.dtype) and np.isnan(some).any():
            some = np.where(np.isnan(some), some.dtype.type(np.nan), some)
        yield some.astype(some.dtype.newbyteorder("<")).tobytes()
