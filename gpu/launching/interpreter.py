"""Kernels under Triton's interpreter, which is told once a launch, not at every call, how to read the language.

The interpreter replaces the functions of ``triton.language`` by its own when a launch starts, and looks for what is
left to replace again at each call of a device function: a third of its time goes there. What a launch has replaced
stays replaced until it ends, so the second look finds nothing (docs/decisions/interpreted-language.md).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from triton import language
from triton.runtime import interpreter

from specsim.gpu.launching.plan import Plan

LOOK = "_patch_lang"
"""Triton's function that looks through the modules of the language that another function can see."""


def interpret(plan: Plan, arguments: dict[str, Any]) -> None:
    """Run a launch under the interpreter, one program after another.

    Parameters
    ----------
    plan : Plan
        The kernel, its grid and its options.
    arguments : dict
        Every argument of the kernel by the name of its parameter.
    """
    given = {name: _apart(value) for name, value in arguments.items()}
    with _language_replaced_once():
        plan.kernel[plan.grid](**given, num_warps=plan.num_warps, **plan.options)


def _apart(value: Any) -> Any:
    """Give an empty tensor memory of its own: the interpreter takes storages of one address for one storage."""
    return value.new_empty(value.shape) if isinstance(value, torch.Tensor) and not value.numel() else value


@contextmanager
def _language_replaced_once() -> Iterator[None]:
    """Let the interpreter look through each module of the language once while the block runs."""
    look: Callable[[Any], Any] | None = vars(interpreter).get(LOOK)
    if look is None:
        yield
        return
    replaced: set[str] = set()

    def look_once(function: Any) -> Any:
        visible = _languages_of(function.__module__)
        if visible <= replaced:
            return None
        replaced.update(visible)
        return look(function)

    setattr(interpreter, LOOK, look_once)
    try:
        yield
    finally:
        setattr(interpreter, LOOK, look)


@cache
def _languages_of(module: str) -> frozenset[str]:
    """Return which modules of the language the functions of a module can see."""
    seen = vars(sys.modules[module]).values()
    return frozenset(one.__name__ for one in (language, language.core) if any(value is one for value in seen))
