"""Triton kernels of engines where they are interpreted: each call of an operation reads Triton's language once.

The interpreter looks through the language again whenever a kernel calls a function, and works out again what each
value is. What is done instead, and why no entry changes by it, is in docs/decisions/interpreted-language.md.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from specsim.environment import INTERPRETER, says_yes


def reading_once(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return the functions of an adapter, each reading the language once a call where kernels are interpreted."""
    return {name: _reading_once(function) for name, function in functions.items()}


def _reading_once(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        if not says_yes(INTERPRETER):
            return function(*positional, **named)
        # NOTE: where kernels are compiled, nothing of Triton's interpreter is needed, nor has to be there.
        from specsim.gpu.launching.interpreter import read_once

        # NOTE: arithmetic on numbers that are none is silent on a GPU; NumPy would warn.
        with read_once(), np.errstate(all="ignore"):
            return function(*positional, **named)

    return call
