"""Functions of ours that call others of the catalogue: around an implementation they call its own in their place.

Such a function takes the others as arguments that may be given by name alone, with ours as defaults. An implementation
that brings one of these and not the function that calls it would otherwise never be asked for it.
"""

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from specsim.conformance.catalogue import CATALOGUE

Find = Callable[[str], Callable[..., Any] | None]


@cache
def ours(name: str) -> Callable[..., Any] | None:
    """Return our function or part of a name; None for an operation."""
    return CATALOGUE[name].on_host if name in CATALOGUE else None


@cache
def asked_by(name: str) -> tuple[str, ...]:
    """Return the names of the callables that our function takes by name, to call them."""
    function = ours(name)
    if function is None:
        return ()
    parameters = inspect.signature(function).parameters.values()
    return tuple(one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name in CATALOGUE)


@cache
def reached_by(name: str) -> frozenset[str]:
    """Return all that our function may come to call: what it takes, and what these take."""
    return frozenset(asked_by(name)).union(*map(reached_by, asked_by(name)))


def bound(
    name: str, function: Callable[..., Any], find: Find, host: Callable[[str], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return a function as an implementation calls it: if it is ours, with what it asks for from the implementation.

    Parameters
    ----------
    name : str
        Its name.
    function : callable
        What the implementation has of this name.
    find : callable
        Returns what the implementation has of a name, or None.
    host : callable
        Returns the same to be called, and counts it. It is asked at each call, so that only calls count.
    """
    asked = asked_by(name)
    if not asked or function is not ours(name):
        return function

    def is_brought(one: str) -> bool:
        return any(find(each) not in (None, ours(each)) for each in (one, *reached_by(one)))

    brought = {one: partial(_call, host, one) for one in asked if is_brought(one)}
    return partial(function, **brought) if brought else function


def _call(host: Callable[[str], Callable[..., Any]], name: str, /, *positional: Any, **named: Any) -> Any:
    return host(name)(*positional, **named)
