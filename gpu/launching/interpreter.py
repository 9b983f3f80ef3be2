"""Kernels under Triton's interpreter, which learns once a call of an operation how to read the language.

The interpreter replaces the functions of ``triton.language`` by its own when a launch starts, looks for what is left
to replace again at each call of a device function, and puts everything back when the launch ends. Here what has been
replaced stays so until the last launch of a call has ended, so that the other looks find nothing; and what values are
is looked up instead of worked out again (docs/decisions/interpreted-language.md).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from triton import language
from triton.runtime import interpreter

from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.semantic import LeanSemantic

LOOK = "_patch_lang"
"""Triton's function that looks through the modules of the language that another function can see."""

SEMANTIC = "interpreter_semantic"
"""What the interpreter carries every operation of the language out with."""

ENTRIES = "_get_np_dtype"
"""Triton's function that says which entries of NumPy stand for a type."""

_IS_KNOWN = {LOOK, SEMANTIC, ENTRIES} <= vars(interpreter).keys()
_SEMANTIC = LeanSemantic(interpreter.interpreter_builder)
_ENTRIES: dict[str, Any] = {}


class _Kept:
    """What a launch is given to put the language back with: it is put back later, with that of the other launches."""

    def restore(self) -> None:
        """Leave the language as it is."""


def interpret(launches: Iterable[tuple[Plan, dict[str, Any]]]) -> None:
    """Run launches under the interpreter, one program after another.

    Parameters
    ----------
    launches : iterable of tuple
        Each is a kernel with its grid and options, and every argument of the kernel by the name of its parameter.
    """
    with read_once():
        for plan, arguments in launches:
            given = {name: _apart(value) for name, value in arguments.items()}
            plan.kernel[plan.grid](**given, num_warps=plan.num_warps, **plan.options)


def _apart(value: Any) -> Any:
    """Give an empty tensor memory of its own: the interpreter takes storages of one address for one storage."""
    return value.new_empty(value.shape) if isinstance(value, torch.Tensor) and not value.numel() else value


@contextmanager
def read_once() -> Iterator[None]:
    """Let the interpreter look through each module of the language once while the block runs, and look types up.

    Kernels need not be ours: those of an engine are read so too, wherever their module is kept.
    """
    own = vars(interpreter)
    if not _IS_KNOWN:
        yield
        return
    before = {name: own[name] for name in (LOOK, SEMANTIC, ENTRIES)}
    scopes: list[Any] = []
    _set({LOOK: _looking_once(own[LOOK], scopes), SEMANTIC: _SEMANTIC, ENTRIES: _remembering(own[ENTRIES])})
    try:
        yield
    finally:
        _set(before)
        for scope in reversed(scopes):
            scope.restore()


def _set(names: dict[str, Any]) -> None:
    for name, value in names.items():
        setattr(interpreter, name, value)


def _looking_once(look: Callable[[Any], Any], scopes: list[Any]) -> Callable[[Any], _Kept]:
    """Return a function that looks where there may be something to replace, and keeps what puts it back."""
    replaced: set[str] = set()

    def look_once(function: Any) -> _Kept:
        visible = _languages_of(function)
        if not visible <= replaced:
            replaced.update(visible)
            scope = look(function)
            if scope is not None:
                scopes.append(scope)
                # Triton 3.6 calls int() on an array of one entry, which NumPy 2.4 refuses. The scope puts it back.
                language.tensor.__index__ = _index
        return _Kept()

    return look_once


def _index(value: Any) -> int:
    """Return the number that a lone value of a kernel stands for, where Python asks for one, as a loop's bounds."""
    return int(value.handle.data.item())


def _remembering(entries_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that asks once for each name of a type without its shape, on which alone the answer depends."""

    def remembered(type_: Any) -> Any:
        name = type_.scalar.name
        if name not in _ENTRIES:
            _ENTRIES[name] = entries_of(type_)
        return _ENTRIES[name]

    return remembered


@cache
def _languages_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return which modules of the language a function can see, also where its module is not in ``sys.modules``."""
    seen = function.__globals__.values()
    return frozenset(one.__name__ for one in (language, language.core) if any(value is one for value in seen))
