"""Bad calls: a valid call with one fault that the table can name; structural faults stand in ``structure``
and beside the strategies of their group.

A drawn fault may happen to leave the call valid; the user of these strategies filters such draws away.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.contracts.binding import bind, bound_of, defined_mask, is_floating
from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import bulk
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed import structure
from specsim.properties.strategies.malformed.arguments import Arguments, array_at, num_arrays, with_array

_OTHER_DTYPE = {
    "int64": "int32",
    "int32": "float32",
    "float32": "float64",
    "bool": "uint8",
    "uint8": "int64",
    "float16": "float32",
    "bfloat16": "float16",
}
_BARELY = 2.0**-20

Fault = Callable[[DrawFn, str, Arguments], Arguments]

FAULTS = dict(structure.FAULTS)
"""Structural faults of each operation that has any; a group's strategies may state their own."""
for module in strategies.modules().values():
    FAULTS |= vars(module).get("FAULTS", {})


@made_once
def calls(operation: str) -> SearchStrategy[Arguments]:
    """Return a strategy of calls with one fault; half of them are structural, where an operation has such faults."""
    structural = (_structural,) * len(_GENERAL) if operation in FAULTS else ()
    return _calls(operation, (*_GENERAL, *structural))


@composite
def _calls(draw: DrawFn, operation: str, faults: tuple[Fault, ...]) -> Arguments:
    # NOTE: of choices of its own Hypothesis repeats what it has met, and a run would come to some kinds alone.
    kind = draw(bulk()).integer(0, len(faults) - 1)
    arguments: Arguments = draw(strategies.for_operation(operation))
    return faults[kind](draw, operation, arguments)


def _structural(draw: DrawFn, operation: str, arguments: Arguments) -> Arguments:
    fault = draw(st.sampled_from(FAULTS[operation]))
    return fault(dict(arguments), draw(st.integers(0, 2**16)))


def _of_array(change: Callable[[DrawFn, Any], Any]) -> Fault:
    """Return the fault that one array is another: ``change`` takes it, and gives None where it stays as it is."""

    def fault(draw: DrawFn, operation: str, arguments: Arguments) -> Arguments:
        chosen = _draw_array(draw, operation, arguments)
        changed = None if chosen is None else change(draw, chosen[2])
        return arguments if chosen is None or changed is None else with_array(arguments, *chosen[:2], changed)

    return fault


def _other_dtype(draw: DrawFn, values: Any) -> Any:
    return values.astype(_OTHER_DTYPE.get(str(values.dtype), "float64"))


def _other_rank(draw: DrawFn, values: Any) -> Any:
    return values[..., None] if draw(st.booleans()) else np.zeros((), values.dtype)


def _other_size(draw: DrawFn, values: Any) -> Any:
    if values.ndim == 0:
        return None
    axis = draw(st.integers(0, values.ndim - 1))
    if draw(st.booleans()) and values.shape[axis]:
        return np.concatenate([values, np.take(values, [-1], axis=axis)], axis=axis)
    return np.delete(values, slice(0, 1), axis=axis)


def _missing(draw: DrawFn, operation: str, arguments: Arguments) -> Arguments:
    contract = RECORDS[operation].contract
    names = [spec.name for spec in contract.arrays if not spec.optional]
    names += [spec.name for spec in contract.scalars if spec.default is None]
    return {**arguments, draw(st.sampled_from(names)): None}


def _scalar_out_of_range(draw: DrawFn, operation: str, arguments: Arguments) -> Arguments:
    contract = RECORDS[operation].contract
    if not contract.scalars:
        return arguments
    bindings = bind(operation, contract, arguments)
    spec = draw(st.sampled_from(contract.scalars))
    low, high = bound_of(spec.low, bindings), bound_of(spec.high, bindings)
    beyond = [] if low is None else [low - 1]
    beyond += [] if high is None else [high + 1]
    return {**arguments, spec.name: draw(st.sampled_from(beyond or [-1]))}


def _entry_out_of_range(draw: DrawFn, operation: str, arguments: Arguments) -> Arguments:
    contract = RECORDS[operation].contract
    bindings = bind(operation, contract, arguments)
    chosen = _draw_array(draw, operation, arguments, _has_bounds)
    if chosen is None:
        return arguments
    spec, index, values = chosen
    low, high = bound_of(spec.low, bindings), bound_of(spec.high, bindings)
    beyond: list[Any] = [] if low is None else [low - 1 - (spec.sentinel == low - 1), low - 5]
    beyond += [] if high is None else [high + 1, high + 5]
    wrong: list[Any] = []
    if is_floating(values.dtype):
        wrong = [float("nan"), *([] if low is None else [low - _BARELY]), *([] if high is None else [high + _BARELY])]
    places = np.argwhere(np.broadcast_to(defined_mask(spec, values.shape, arguments, bindings), values.shape))
    if not len(places):
        return arguments
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        beyond = [bound for bound in beyond if limits.min <= bound <= limits.max]
    changed = values.copy()
    changed[tuple(places[draw(st.integers(0, len(places) - 1))])] = draw(st.sampled_from(beyond + wrong or [0]))
    return with_array(arguments, spec, index, changed)


def _draw_array(
    draw: DrawFn, operation: str, arguments: Arguments, wanted: Callable[[ArraySpec, Any], bool] | None = None
) -> tuple[ArraySpec, int, Any] | None:
    """Draw one array of the call, or None if it has none that is wanted."""
    places = [
        (spec, index)
        for spec in RECORDS[operation].contract.arrays
        for index in range(num_arrays(spec, arguments))
        if wanted is None or wanted(spec, array_at(arguments, spec, index))
    ]
    if not places:
        return None
    spec, index = places[draw(bulk()).integer(0, len(places) - 1)]
    return spec, index, array_at(arguments, spec, index)


def _has_bounds(spec: ArraySpec, values: Any) -> bool:
    return values.size > 0 and (spec.low is not None or spec.high is not None or is_floating(values.dtype))


_GENERAL: tuple[Fault, ...] = (
    _entry_out_of_range,
    _of_array(_other_size),
    _of_array(_other_dtype),
    _of_array(_other_rank),
    _missing,
    _scalar_out_of_range,
)
