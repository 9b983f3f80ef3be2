"""Kernels under Triton's interpreter, which learns once a call of an operation how to read the language.

The interpreter replaces the functions of ``triton.language`` by its own when a launch starts, looks for what is left
to replace again at each call of a device function, and puts everything back when the launch ends. Here what has been
replaced stays so until the last launch of a call has ended, so that the other looks find nothing; what a look has
replaced is remembered for the next call; and what values are is looked up instead of worked out again
(docs/decisions/interpreted-language.md).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

MISSING = "_MISSING"
"""What a scope of Triton's keeps as the original of a name that was not there."""

_IS_KNOWN = {LOOK, SEMANTIC, ENTRIES} <= vars(interpreter).keys()
_SEMANTIC = LeanSemantic(interpreter.interpreter_builder)
_ENTRIES: dict[str, Any] = {}
_ABSENT = vars(interpreter).get(MISSING)
_REPLACED: dict[tuple[Any, ...], list["_Change"]] = {}
"""What a look has replaced, by the look, what it could see, and what had been replaced before."""


@dataclass(frozen=True)
class _Change:
    """A name of the language that stands for another thing while kernels are interpreted."""

    owner: Any
    name: str
    original: Any
    replacement: Any

    @property
    def is_due(self) -> bool:
        """Whether the name stands for what it stood for when it was replaced first."""
        return getattr(self.owner, self.name, _ABSENT) is self.original

    def make(self) -> None:
        setattr(self.owner, self.name, self.replacement)

    def take_back(self) -> None:
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


class _Scope:
    """Puts back what was replaced as an earlier look had done it."""

    def __init__(self, changes: list[_Change]) -> None:
        self._changes = changes

    def restore(self) -> None:
        """Put it back."""
        for change in self._changes:
            change.take_back()


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
    if not _IS_KNOWN or own[SEMANTIC] is _SEMANTIC:
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
            key = (look, visible, frozenset(replaced), len(vars(language)), len(vars(language.core)))
            replaced.update(visible)
            known = _REPLACED.get(key, [])
            if known and all(change.is_due for change in known):
                for change in known:
                    change.make()
                scopes.append(_Scope(known))
                return _Kept()
            scope = look(function)
            if scope is not None:
                scopes.append(scope)
                # Triton 3.6 calls int() on an array of one entry, which NumPy 2.4 refuses. The scope puts it back.
                language.tensor.__index__ = _index
                _REPLACED[key] = _changes_of(scope)
        return _Kept()

    return look_once


def _changes_of(scope: Any) -> list[_Change]:
    """Return what a look has replaced, each name once; nothing where Triton keeps that in another way."""
    originals: dict[tuple[int, str], tuple[Any, Any]] = {}
    for owner, name, original in getattr(scope, "_changes", ()) if MISSING in vars(interpreter) else ():
        originals.setdefault((id(owner), name), (owner, original))
    return [
        _Change(owner, name, original, vars(owner)[name])
        for (_, name), (owner, original) in originals.items()
        if name in vars(owner)
    ]


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
