"""Functions without some arguments of their operation, because their module declares that it has no use for them."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

from specsim.conformance.limits import Limits
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
