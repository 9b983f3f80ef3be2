"""The registry of algorithms: the built-in ones, plug-ins, and the types of what phases hand over.

No worker is imported here: its creator hands the factories over by name.
"""

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from specsim.algorithms.builtin import (
    PLUGINS,
    WITH_CHECKED_SIZES,
    Algorithm,
    SpeculativeAlgorithm,
    find_algorithm,
    target_verify_width,
)
from specsim.algorithms.drafters import DRAFTERS, WORKERS, Drafter
from specsim.algorithms.flags import Flags, Predicates
from specsim.algorithms.inputs import SpecInputType
from specsim.algorithms.own import own_drafters
from specsim.algorithms.plugin import CustomSpecAlgo, Factory, WorkerRequest
from specsim.algorithms.promises import check_promises
from specsim.rejection import Reason, SpecRejection, contradiction

__all__ = [
    "ALIAS_OF_EAGLE",
    "DRAFTERS",
    "PLUGINS",
    "WITH_CHECKED_SIZES",
    "WORKERS",
    "Algorithm",
    "CustomSpecAlgo",
    "Drafter",
    "Flags",
    "Predicates",
    "SpecInputType",
    "SpeculativeAlgorithm",
    "WorkerRequest",
    "check_registration",
    "find_algorithm",
    "missing_predicates",
    "own_drafters",
    "register",
    "reserved_names",
    "restored_registry",
    "target_verify_width",
]


F = TypeVar("F", bound=Factory)

ALIAS_OF_EAGLE = "NEXTN"
"""A name that configurations use for EAGLE; the rules replace it before anything looks it up."""

PREDICATE_PREFIXES = ("is_", "supports_")


def reserved_names() -> frozenset[str]:
    """Return the names that no plug-in may take: those of the members, and the alias."""
    return frozenset({*SpeculativeAlgorithm.__members__, ALIAS_OF_EAGLE})


def missing_predicates(spec_class: type) -> tuple[str, ...]:
    """Return the predicates of the built-in algorithms that a class lacks, in alphabetical order.

    NOTE: the names come from the namespaces of the enum and of its bases; ``dir()`` of an enum lists members and hides
    methods.
    """
    named = {name for base in SpeculativeAlgorithm.__mro__ for name in vars(base)}
    asked = {name for name in named if name.startswith(PREDICATE_PREFIXES)}
    present = {name for base in spec_class.__mro__ for name in vars(base)}
    return tuple(sorted(asked - present))


def check_registration(name: str, spec_class: type, taken: Container[str]) -> str:
    """Return the name in capitals if a plug-in of that name and class may be registered.

    Parameters
    ----------
    name : str
        In any case.
    spec_class : type
        What describes the plug-in.
    taken : container of str
        Names of the plug-ins that are registered, in capitals.

    Raises
    ------
    SpecRejection
        RESERVED_NAME, then DUPLICATE_NAME.
    TypeError
        The class lacks predicates; the message lists them.

    Notes
    -----
    Source: semantics G.3.
    """
    capitals = name.upper()
    if capitals in reserved_names():
        raise _name_rejection(Reason.RESERVED_NAME, name, "built-in algorithms and their aliases keep their names")
    if capitals in taken:
        raise _name_rejection(Reason.DUPLICATE_NAME, name, "a plug-in of that name is registered")
    missing = missing_predicates(spec_class)
    if missing:
        raise TypeError(f"{spec_class.__name__} lacks {', '.join(missing)}, but should have every predicate")
    return capitals


def register(
    name: str,
    *,
    supports_overlap: bool = False,
    validate_server_args: Callable[[Any], Any] | None = None,
    spec_class: type[CustomSpecAlgo] = CustomSpecAlgo,
    flags: Flags | None = None,
) -> Callable[[F], F]:
    """Return a decorator that registers a worker factory under a name and returns the factory unchanged.

    The name, the class and what it promises are checked at once; the entry is stored when the decorator runs.
    ``flags`` is the plug-in's row; without one it is that of its class.

    Raises
    ------
    SpecRejection
        RESERVED_NAME or DUPLICATE_NAME; BAD_CONFIGURATION: it breaks its own promises, or the factory cannot be called.
    TypeError
        ``spec_class`` lacks predicates.

    Notes
    -----
    Source: semantics G.3.
    """

    def described(factory: Factory) -> CustomSpecAlgo:
        capitals = check_registration(name, spec_class, PLUGINS)
        plugin = spec_class(capitals, factory, supports_overlap, validate_server_args)
        plugin = plugin if flags is None else replace(plugin, flags=flags)
        check_promises(plugin)
        return plugin

    described(_no_worker)

    def store(factory: F) -> F:
        plugin = described(factory)
        if not callable(factory):
            because = "it makes the class of the worker"
            what = f"factory of {plugin.name}"
            raise contradiction(what, repr(factory), "a callable", because)
        PLUGINS[plugin.name] = plugin
        return factory

    return store


@contextmanager
def restored_registry() -> Iterator[None]:
    """Drop, at the end of the block, the plug-ins that were registered in it, and bring back those removed."""
    before = dict(PLUGINS)
    try:
        yield
    finally:
        PLUGINS.clear()
        PLUGINS.update(before)


def _no_worker(request: Any) -> None:
    """Stand for a factory that is not known yet."""


def _name_rejection(reason: Reason, name: str, because: str) -> SpecRejection:
    return SpecRejection(reason, "name", repr(name), "a name of its own", because)
