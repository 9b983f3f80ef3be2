"""An implementation whose missing operations another one supplies."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from specsim.conformance.backend import Backend
from specsim.conformance.binding import bound
from specsim.conformance.calls import CallsByName
from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.outside import OutsideLimits


@dataclass(frozen=True)
class Completed(CallsByName):
    """An implementation whose missing operations another one supplies."""

    first: Backend
    other: Backend

    def has(self, name: str) -> bool:
        """Return whether one of the two defines a callable."""
        return self.first.has(name) or self.other.has(name)

    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call an operation where it is defined; the other one takes what lies outside of the limits of the first."""
        if name in CATALOGUE and CATALOGUE[name].record is None:
            return self.host(name)(*positional, **named)
        with suppress(OutsideLimits):
            if self.first.has(name):
                return self.first.call(name, *positional, **named)
        return self.other.call(name, *positional, **named)

    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host from where it is defined; one of ours calls what the first one brings."""
        function = (self.first if self.first.has(name) else self.other).host(name)
        return bound(name, function, self._found, self.host)

    def _found(self, name: str) -> Callable[..., Any] | None:
        return self.first.functions.get(name, self.other.functions.get(name))
