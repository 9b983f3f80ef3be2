"""Which functions of an engine are recorded, and how their calls read as calls of operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from specsim.conformance.backend import BackendUnavailable, load
from specsim.conformance.given import SUFFIX, WITH_OUTPUTS
from specsim.contracts.compiled import compile_contract
from specsim.operations import RECORDS
from specsim.operations.derived.signature import name_arguments
from specsim.operations.record import Operation

CALLS = "CALLS"
"""What a module says that adapts an engine: the taps of the engine's own functions."""


@dataclass(frozen=True)
class Tap:
    """A function of an engine whose calls are calls of an operation.

    Parameters
    ----------
    operation : str
        A name of the table.
    name : str
        Its name in its module, or ``Class.name``.
    modules : tuple of str
        The modules that have had it, the latest release first.
    arguments : callable
        Takes what the function is called with, and returns the arguments of the operation by name, or None if that is
        no call of the operation. It looks at no entry of an array, and waits for none.
    outputs : callable
        Takes what the function returned, then what it was called with, and returns the outputs in the order of the
        contract.
    """

    operation: str
    name: str
    modules: tuple[str, ...]
    arguments: Callable[..., Mapping[str, Any] | None]
    outputs: Callable[..., Sequence[Any]]


def taps_of(name: str) -> tuple[Tap, ...]:
    """Return what is recorded of an implementation: what it lists as ``CALLS``, or its functions named like operations.

    Raises
    ------
    BackendUnavailable
        There is nothing to record.
    """
    load(name)
    module = import_module(name)
    taps = vars(module).get(CALLS)
    if taps is None:
        taps = _taps_of_module(module)
    if not taps:
        raise BackendUnavailable(f"{name} cannot be recorded: it has no function of an operation and no {CALLS}")
    return tuple(taps)


def _taps_of_module(module: ModuleType) -> list[Tap]:
    are_given = vars(module).get("OUTPUTS") == "given"
    taps = []
    for name, operation in RECORDS.items():
        for attribute, is_given in ((name, are_given), (name + SUFFIX, True)):
            if callable(vars(module).get(attribute)) and (not is_given or name + SUFFIX in WITH_OUTPUTS):
                read, answer = (_named_but_out, _given) if is_given else (_named, _returned)
                taps.append(
                    Tap(name, attribute, (module.__name__,), partial(read, operation), partial(answer, operation))
                )
    return taps


def _named(operation: Operation, /, *positional: Any, **named: Any) -> Mapping[str, Any]:
    return name_arguments(operation, positional, named)


def _named_but_out(operation: Operation, /, *positional: Any, **named: Any) -> Mapping[str, Any]:
    return _named(operation, *_without_out(operation, positional), **{k: v for k, v in named.items() if k != "out"})


def _returned(operation: Operation, returned: Any, /, *positional: Any, **named: Any) -> Sequence[Any]:
    if not operation.contract.outputs:
        return ()
    return returned if isinstance(returned, tuple) else (returned,)


def _given(operation: Operation, returned: Any, /, *positional: Any, **named: Any) -> Sequence[Any]:
    """Return the outputs that the caller handed over; of larger ones, the part that the call is about."""
    out = named["out"] if "out" in named else positional[-1]
    arguments = _named_but_out(operation, *positional, **named)
    outputs = out if isinstance(out, tuple | list) else (out,)
    forms = compile_contract(operation.name, operation.contract).check(arguments).forms
    return [_part(array, None if form is None else form[0]) for array, form in zip(outputs, forms, strict=True)]


def _without_out(operation: Operation, positional: Sequence[Any]) -> Sequence[Any]:
    return positional[: len(operation.contract.names)]


def _part(array: Any, shape: Sequence[int] | None) -> Any:
    if array is None or shape is None or len(array.shape) != len(shape):
        return array
    if any(there < wanted for there, wanted in zip(array.shape, shape, strict=True)):
        return array
    return array[tuple(slice(size) for size in shape)]
