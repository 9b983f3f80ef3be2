"""Functions are found where they stand, replaced by what watches them, and put back."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from specsim.conformance.recording.taps import Tap

Function = Callable[..., Any]


@dataclass(frozen=True)
class Found:
    """A function of a tap, and the class that holds it, if one does; ``kind`` is what it is wrapped in there."""

    tap: Tap
    function: Function
    owner: type | None = None
    kind: type | None = None


def find(tap: Tap) -> Found | None:
    """Find the function of a tap in the first of its modules that has it, or return None."""
    for name in tap.modules:
        try:
            holder: Any = import_module(name)
        except Exception:  # NOTE: what is imported of an engine asks for parts of it, and may raise anything without.
            continue
        owner, _, attribute = tap.name.rpartition(".")
        holder = vars(holder).get(owner) if owner else holder
        found = None if holder is None else vars(holder).get(attribute)
        if isinstance(found, staticmethod | classmethod):
            return Found(tap, found.__func__, holder, type(found))
        if callable(found):
            return Found(tap, found, holder if owner else None)
    return None


class Replaced:
    """Attributes that hold something else for a while."""

    def __init__(self) -> None:
        self._places: list[tuple[Any, str, Any, Any]] = []

    def put(self, found: Sequence[tuple[Found, Function]]) -> int:
        """Replace functions in their classes, and in every module that is imported and holds the same object.

        Returns
        -------
        num_places : int
        """
        watching = {id(one.function): (one.function, other) for one, other in found if one.owner is None}
        for one, other in found:
            if one.owner is not None:
                kind = one.kind or _as_it_is
                self._put(one.owner, one.tap.name.rpartition(".")[2], kind(other))
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType):
                continue
            for name, value in list(vars(module).items()):
                if id(value) in watching and value is watching[id(value)][0]:
                    self._put(module, name, watching[id(value)][1])
        return len(self._places)

    def restore(self) -> None:
        """Put everything back that no one else has replaced in the meantime."""
        while self._places:
            holder, name, original, other = self._places.pop()
            if vars(holder).get(name) is other:
                setattr(holder, name, original)

    def _put(self, holder: Any, name: str, other: Any) -> None:
        self._places.append((holder, name, vars(holder)[name], other))
        setattr(holder, name, other)


def _as_it_is(function: Function) -> Function:
    return function
