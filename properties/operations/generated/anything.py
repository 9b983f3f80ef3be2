"""Whatever is handed over, a call returns or is refused; and what it returns is memory of its own."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.isolation.heartbeat import begin_call, stay
from specsim.conformance.outside import require_inside
from specsim.conformance.plain_text import words_of
from specsim.contracts.extents import overlap
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.operations.generated.agreement import of_operations
from specsim.properties.property import Property
from specsim.properties.strategies.malformed.anything import MutatedCall, mutated_calls
from specsim.rejection import SpecRejection


def handed_over(backend: Backend, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in the arrays of the implementation; what it has no array for stays what it is.

    Nothing is copied where that can be helped, so that arrays which share memory go on sharing it.
    """
    carried: dict[int, Any] = {}

    def carry(value: Any) -> Any:
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(carry(entry) for entry in value)
        if type(value) is not np.ndarray:
            return value
        if id(value) not in carried:
            try:
                carried[id(value)] = backend.arrays.from_numpy(value)
            except Exception:  # NOTE: a library may refuse an array in any way; it is handed over as it is.
                carried[id(value)] = value
        return carried[id(value)]

    return {name: carry(value) for name, value in arguments.items()}


def returns_or_is_refused(operation: str, backend: Backend, case: MutatedCall) -> None:
    """A call of anything returns, or raises SpecRejection and has written nothing."""
    arguments = case.arguments()
    require_inside(backend.limits, RECORDS[operation], arguments)
    begin_call(operation, arguments)
    given = handed_over(backend, arguments)
    before = _contents(backend, given)
    try:
        with backend.arrays.debugging():
            backend.functions[operation](**given)
    except SpecRejection as rejection:
        for name, contents in _contents(backend, given).items():
            if contents != before[name]:
                got = f"{case}: {name} = changed, but should be as before"
                raise AssertionError(f"{got}, because the call is refused: {rejection}") from rejection
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        got = f"{type(error).__name__}: {words_of(error)}"
        raise AssertionError(f"{case} = {got}, but should be an answer or a rejection") from error


def outputs_have_memory_of_their_own(operation: str, backend: Backend, case: strategies.Arguments) -> None:
    """No output shares memory with an argument."""
    require_inside(backend.limits, RECORDS[operation], case)
    carried = backend.carry(operation, case)
    returned = stay(operation, backend.functions[operation], carried)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    for spec, output in zip(RECORDS[operation].contract.outputs, outputs, strict=False):
        for argument in RECORDS[operation].contract.arrays:
            for given in _as_list(carried[argument.name]):
                if output is not None and _overlap(backend, output, given):
                    got = f"{operation}: {spec.name} = in the memory of {argument.name}"
                    raise AssertionError(f"{got}, but should be in memory of its own")


def anything_properties() -> tuple[Property, ...]:
    """Return both properties of every operation of the table."""
    with_outputs = [name for name, operation in RECORDS.items() if operation.contract.outputs]
    return (
        *of_operations("anything", RECORDS, mutated_calls, returns_or_is_refused),
        *of_operations("apart", with_outputs, strategies.in_any_layout, outputs_have_memory_of_their_own),
    )


def _overlap(backend: Backend, one: Any, other: Any) -> bool:
    extents = backend.arrays.extent_of(one), backend.arrays.extent_of(other)
    return all(min(extent.shape, default=1) > 0 for extent in extents) and overlap(*extents)


def _contents(backend: Backend, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every array of a call holds, and of anything else what can be said of it."""

    def contents(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [contents(entry) for entry in value]
        if isinstance(value, np.ndarray):
            return value.tolist() if value.dtype.hasobject else np.asarray(value).tobytes()
        try:
            return backend.arrays.to_numpy(value).tobytes()
        except Exception:  # NOTE: it is no array, so nothing can be written into it.
            return None

    return {name: contents(value) for name, value in arguments.items()}


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
