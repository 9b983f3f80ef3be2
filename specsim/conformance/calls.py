"""Calls by attribute: ``backend.verify_tree_greedy(candidates, …)``, typed by protocols that the tables generate."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from specsim.conformance.arrays import Array
from specsim.conformance.catalogue import CATALOGUE, unknown_name
from specsim.conformance.host_protocol import HostFunctions
from specsim.operations.protocol import ModelOperations, Operations


class CallsByName(Operations[Array], ModelOperations[Array], HostFunctions):
    """Every callable of the catalogue as a method; each hands its arguments to ``call``.

    An object with ``call`` satisfies ``Operations`` by it: a backend, one that another completes, or one that watches.
    """

    @abstractmethod
    def call(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Call what the catalogue lists under a name."""

    @abstractmethod
    def host(self, name: str) -> Callable[..., Any]:
        """Return a function of the host, or a part of an engine."""

    if not TYPE_CHECKING:
        # NOTE: hidden from type checkers, which would let every attribute pass.
        def __getattr__(self, name: str) -> Any:
            if name not in CATALOGUE:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}{unknown_name(name)}", name=name)
            return partial(self.call, name)

        def __dir__(self) -> list[str]:
            return [*super().__dir__(), *CATALOGUE]
