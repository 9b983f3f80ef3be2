"""Plug-ins: algorithms that somebody else brings, with a factory for their worker (semantics G.2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from specsim.algorithms.flags import NO_FLAG, Flags, Predicates
from specsim.rejection import contradiction

Factory = Callable[[Any], Any]


@dataclass(frozen=True)
class WorkerRequest:
    """What decides which worker an algorithm creates.

    Parameters
    ----------
    version : str
        ``v1`` or ``v2``, as the rules chose.
    is_overlapped : bool
        Whether the host schedules the next iteration while one is running.
    is_multi_layer : bool
        Whether every draft step has a layer of its own.
    config : object
        Whatever the factory needs besides.
    """

    version: str
    is_overlapped: bool
    is_multi_layer: bool = False
    config: Any = None


@dataclass(frozen=True)
class CustomSpecAlgo(Predicates):
    """A plug-in; a subclass may answer a predicate in another way than its row (semantics G.2).

    Parameters
    ----------
    name : str
        In capitals.
    factory : callable
        Makes the worker class of a WorkerRequest.
    supports_overlap : bool
        Whether its worker can be overlapped with scheduling.
    validate_server_args : callable or None
        Takes the configuration before any built-in rule of a family, returns an adjusted one or None, or raises.
    flags : Flags
        Its row. By default it drafts, is none of the built-in algorithms, and runs on the worker V2 if it supports
        overlap.
    """

    name: str
    factory: Factory
    supports_overlap: bool = False
    validate_server_args: Callable[[Any], Any] | None = None
    flags: Flags = NO_FLAG

    def __post_init__(self) -> None:
        if self.supports_overlap:
            object.__setattr__(self, "flags", replace(self.flags, supports_spec_v2=True))

    def create_worker(self, request: WorkerRequest, factories: Mapping[str, Factory] | None = None) -> Any:
        """Return what its own factory makes of the request; ``factories`` are those of the built-in algorithms.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: overlap is on and the plug-in does not support it.
        """
        if not self.supports_spec_v2():
            refuse_overlap(self.name, request)
        return self.factory(request)


def refuse_overlap(name: str, request: WorkerRequest) -> None:
    """Raise unless the request asks for a worker that runs in step with scheduling.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION.
    """
    if request.is_overlapped:
        raise contradiction("is_overlapped", True, "False; disable overlap", f"{name} has no overlapped worker")
