"""Check a call against the table: shapes, dtypes and scalars always; values where reading them costs nothing.

The array library does not matter for shapes and dtypes. Value checks work on NumPy arrays; a layer whose arrays live
elsewhere brings them to the host first, or leaves the values unchecked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim import validation
from specsim.contracts.binding import Bindings, defined_mask
from specsim.contracts.compiled import Checked, Limits, compile_contract
from specsim.contracts.contract import ArraySpec, Contract
from specsim.contracts.faults import in_bounds, reject
from specsim.contracts.kinds import ANY, NUMPY, is_floating
from specsim.operations import RECORDS
from specsim.rejection import Reason
from specsim.validation.common import extremes


def check_call(
    name: str, arguments: Mapping[str, Any], *, values: bool = True, contract: Contract | None = None
) -> Bindings:
    """Check the arguments of an operation and return what its axes are bound to.

    Parameters
    ----------
    name : str
        The operation.
    arguments : mapping
        Every argument by name; ``None`` for an absent optional one.
    values : bool
        Also check entries (bounds, NaN, structure); the arrays must be NumPy arrays.
    contract : Contract or None
        What is called, where it is none of the table's operations.

    Raises
    ------
    SpecRejection
        With the reason of the first fault.
    """
    contract = RECORDS[name].contract if contract is None else contract
    checked = compile_contract(name, contract, NUMPY if values else ANY).check(arguments)
    if values:
        check_values(name, contract, arguments, checked)
        validation.check_structure(name, arguments, checked.axes)
    return checked.axes


def check_values(name: str, contract: Contract, arguments: Mapping[str, Any], checked: Checked) -> None:
    """Check the defined entries of every array against the bounds of its specification."""
    for spec, (low, high) in zip(contract.arrays, checked.limits, strict=True):
        value = arguments.get(spec.name)
        if value is None:
            continue
        for place, entry in enumerate((value,) if spec.each is None else value):
            if not _is_within(entry, low, high, spec.sentinel):
                label = spec.name if spec.each is None else f"{spec.name}[{place}]"
                _check_entries(name, spec, label, entry, (low, high), arguments, checked.axes)


def _is_within(entry: NDArray[Any], low: int | None, high: int | None, sentinel: int | None) -> bool:
    """Return whether the least and the largest entry say that all of them are in order, as nearly always."""
    can_be_nan = entry.dtype.kind not in "biu"
    if not entry.size or (low is None and high is None and not can_be_nan):
        return True
    least, largest = extremes(entry)
    if can_be_nan and least != least:
        return False
    if low is not None and least < low and (can_be_nan or least != sentinel or sentinel != low - 1):
        return False
    return high is None or bool(largest <= high)


def _check_entries(
    name: str,
    spec: ArraySpec,
    label: str,
    entry: NDArray[Any],
    limits: Limits,
    arguments: Mapping[str, Any],
    axes: Bindings,
) -> None:
    """Find the first entry that is out of bounds and defined."""
    low, high = limits
    is_nan = np.isnan(entry) if is_floating(entry.dtype) else np.zeros(entry.shape, dtype=np.bool_)
    if is_nan.any():
        is_nan &= defined_mask(spec, entry.shape, arguments, axes)
    if is_nan.any():
        raise reject(Reason.NAN_SCORE, f"{label}{_first(is_nan)}", "NaN", "a number", name)
    bad = np.zeros(entry.shape, dtype=np.bool_)
    if low is not None:
        bad |= entry < low
    if high is not None:
        bad |= entry > high
    if spec.sentinel is not None:
        bad &= entry != spec.sentinel
    if bad.any():
        bad &= defined_mask(spec, entry.shape, arguments, axes)
    if bad.any():
        place = _first(bad)
        bound = in_bounds(low, high) + ("" if spec.sentinel is None else f" or {spec.sentinel}")
        raise reject(spec.out_of_range, f"{label}{place}", entry[tuple(place)], bound, name)


def _first(bad: NDArray[np.bool_]) -> list[int]:
    return [int(place) for place in np.argwhere(bad)[0]]
