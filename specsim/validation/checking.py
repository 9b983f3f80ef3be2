"""Check a call against the table: shapes, dtypes and scalars always; values where reading them costs nothing.

The array library does not matter for shapes and dtypes. Value checks work on NumPy arrays; a layer whose arrays live
elsewhere brings them to the host first, or leaves the values unchecked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim import validation
from specsim.contracts.binding import Bindings, arrays_of, bound_of, defined_mask, is_floating, reject
from specsim.contracts.compiled import compile_contract
from specsim.contracts.kinds import ANY, NUMPY
from specsim.operations import RECORDS
from specsim.operations.record import Operation
from specsim.rejection import Reason


def check_call(name: str, arguments: Mapping[str, Any], *, values: bool = True) -> Bindings:
    """Check the arguments of an operation and return what its axes are bound to.

    Parameters
    ----------
    name : str
        The operation.
    arguments : mapping
        Every argument by name; ``None`` for an absent optional one.
    values : bool
        Also check entries (bounds, NaN, structure); the arrays must be NumPy arrays.

    Raises
    ------
    SpecRejection
        With the reason of the first fault.
    """
    operation = RECORDS[name]
    bindings = compile_contract(name, operation.contract, NUMPY if values else ANY).check(arguments).axes
    if values:
        check_values(operation, arguments, bindings)
        validation.check_structure(name, arguments, bindings)
    return bindings


def check_values(operation: Operation, arguments: Mapping[str, Any], bindings: Bindings) -> None:
    """Check the defined entries of every array against the bounds of its specification."""
    for spec in operation.contract.arrays:
        if arguments[spec.name] is None:
            continue
        low = bound_of(spec.low, bindings)
        high = bound_of(spec.high, bindings)
        for label, entry in arrays_of(spec, arguments[spec.name]):
            if is_floating(entry.dtype) and np.isnan(entry).any():
                raise reject(Reason.NAN_SCORE, f"{label}{_first(np.isnan(entry))}", "NaN", "a number", operation.name)
            if low is None and high is None:
                continue
            bad = np.zeros(entry.shape, dtype=np.bool_)
            if low is not None:
                bad |= entry < low
            if high is not None:
                bad |= entry > high
            if spec.sentinel is not None:
                bad &= entry != spec.sentinel
            if bad.any():
                bad &= defined_mask(spec, entry.shape, arguments, bindings)
            if bad.any():
                place = _first(bad)
                bound = f"{'-inf' if low is None else low} to {'inf' if high is None else high}"
                if spec.sentinel is not None:
                    bound += f" or {spec.sentinel}"
                raise reject(spec.out_of_range, f"{label}{place}", entry[tuple(place)], bound, operation.name)


def _first(bad: NDArray[np.bool_]) -> list[int]:
    return [int(place) for place in np.argwhere(bad)[0]]
