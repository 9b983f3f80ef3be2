"""An implementation that is trusted: its functions are called as they are, with nothing checked or copied between."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName


class Direct(CallsByName):
    """The functions of an implementation on NumPy arrays, arguments and outputs handed through.

    A function that writes what it may not, writes to the caller's arrays: this is for the oracle, whose functions check
    their input themselves, and for loops that take more time between operations than in them.
    """

    def __init__(self, backend: Backend) -> None:
        self._functions = dict(backend.functions)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call a function, a part or an operation."""
        return self._functions[name](*positional, **named)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function as it is."""
        return self._functions[name]

    if not TYPE_CHECKING:
        # NOTE: hidden from type checkers, which would let every attribute pass.
        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name not in self._functions:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}", name=name)
            return self._functions[name]


@cache
def oracle() -> Direct:
    """Return the functions of the reference, which every worker of it takes that is given no others."""
    return Direct(load("specsim.reference"))
