"""Functions that lack arguments of their operation, or whose caller allocates the outputs.

A module declares that it has no use for some arguments. Outputs are given to ``name_out(…, out=…)``, or to every
function where ``OUTPUTS = "given"``:

``out`` is one array, or a tuple of them in the order of the contract, None where an output is absent. Called like any
other operation, such a function gets fresh outputs of just the right size.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter, signature
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from specsim.conformance.limits import BadLimits, Limits
from specsim.contracts.compiled import compile_contract
from specsim.operations import RECORDS
from specsim.operations.record import Operation


def without_lacking(limits: Limits, operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes every argument of its operation and hands on those that it has a parameter for.

    Only arguments that ``limits`` lets it lack are left out: any other one is missed as in every call of Python.
    """
    lacking = limits.lacking(operation.contract)
    if not lacking:
        return function
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # NOTE: a function that is not written in Python may not say what it takes.
        return function
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return function
    left_out = set(lacking) - {one.name for one in parameters}

    @wraps(function)
    def call(**arguments: Any) -> Any:
        return function(**{name: value for name, value in arguments.items() if name not in left_out})

    return call if left_out else function


SUFFIX = "_out"
WITH_OUTPUTS = {name + SUFFIX: name for name, operation in RECORDS.items() if operation.contract.outputs}
"""The operation of each function that gets its outputs."""

Function = Callable[..., Any]


def functions_with_outputs(
    module: Mapping[str, Any], name: str, arrays: ModuleType, limits: Limits
) -> dict[str, Function]:
    """Return the functions of a module that write into given outputs, and those of operations that call them.

    Parameters
    ----------
    module : mapping
        Its attributes by name.
    name : str
        What it is called.
    arrays : module
        The carrier of its arrays.
    limits : Limits
        What it declares.

    Raises
    ------
    BadLimits
        ``OUTPUTS`` is neither absent nor "given".
    """
    outputs = module.get("OUTPUTS")
    if outputs not in (None, "given"):
        raise BadLimits(f'{name}.OUTPUTS is {outputs!r}, but should be "given", because nothing else is a choice')
    found: dict[str, Function] = {}
    for form, operation in WITH_OUTPUTS.items():
        given = module.get(form, module.get(operation) if outputs == "given" else None)
        if callable(given):
            given = without_lacking(limits, RECORDS[operation], given)
            found[form] = given
            if outputs == "given" or not callable(module.get(operation)):
                found[operation] = partial(_allocating, RECORDS[operation], given, arrays)
    return found


def as_out(arrays: Sequence[Any]) -> Any:
    """Return what is handed over as ``out``."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _allocating(operation: Operation, given: Function, arrays: ModuleType, **arguments: Any) -> Any:
    forms = compile_contract(operation.name, operation.contract).check(arguments).forms
    out = [None if form is None else arrays.from_numpy(np.zeros(form[0], _dtype(form[1]))) for form in forms]
    given(**arguments, out=as_out(out))
    return as_out(out)


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
