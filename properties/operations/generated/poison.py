"""Poison: nothing that the table calls undefined is ever read, be it an entry of an input or fresh output memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.contracts.binding import Bindings, arrays_of, bind, bound_of, defined_mask
from specsim.contracts.contract import ALL, ArraySpec
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.operations.generated.agreement import PATTERNS, of_operations, require_same_outputs
from specsim.properties.property import Property
from specsim.properties.strategies.malformed.arguments import with_array


def poisoned_inputs(operation: str, case: Mapping[str, Any], pattern: int) -> dict[str, Any]:
    """Fill every undefined entry of the arguments.

    An entry with two bounds gets the lower one or the upper one, so that a kernel which reads it goes wrong without
    leaving its memory; any other entry gets the byte pattern.
    """
    contract = RECORDS[operation].contract
    bindings = bind(operation, contract, case)
    poisoned = dict(case)
    for spec in contract.arrays:
        if spec.defined != ALL:
            for index, (_, entry) in enumerate(arrays_of(spec, case[spec.name])):
                mask = defined_mask(spec, entry.shape, case, bindings)
                filled = np.where(mask, entry, _poison(spec, entry.dtype, pattern, bindings))
                poisoned = with_array(poisoned, spec, index, filled)
    return poisoned


def undefined_entries_do_not_matter(operation: str, backend: Backend, case: strategies.Arguments) -> None:
    """Two patterns of poison, in inputs and in output memory, give the same defined outputs."""
    outcomes = []
    for pattern, is_checked in zip(PATTERNS, (False, True), strict=True):
        with backend.arrays.poisoned_outputs(pattern), backend.arrays.debugging(is_checked):
            outcomes.append(backend.run(operation, poisoned_inputs(operation, case, pattern)))
    require_same_outputs(operation, case, *outcomes)


def poison_properties() -> tuple[Property, ...]:
    """Return the poison property of every operation of the table."""
    return of_operations("poison", RECORDS, strategies.for_operation, undefined_entries_do_not_matter)


def _poison(spec: ArraySpec, dtype: np.dtype[Any], pattern: int, bindings: Bindings) -> Any:
    low, high = bound_of(spec.low, bindings), bound_of(spec.high, bindings)
    if low is not None and high is not None:
        return dtype.type(low if pattern == PATTERNS[0] else high)
    return np.full(dtype.itemsize, pattern, dtype=np.uint8).view(dtype)[0]
