"""The workers of both layers: one of two loops with the draft side of an algorithm's record, imported when asked for.

They are no workers of an implementation: a loop of the reference runs on the operations that it is given, an
implementation's in particular.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from specsim.algorithms import WORKERS
from specsim.conformance.raised import Undefined


@cache
def loop_of(name: str, layer: str = "reference") -> Callable[..., Any]:
    """Return what makes a worker: its loop, with its side.

    Raises
    ------
    Undefined
        There is no worker of that name.
    """
    if name not in WORKERS:
        raise Undefined(f"specsim.{layer} has no worker {name}; it has {', '.join(sorted(WORKERS))}")
    drafter, is_v1 = WORKERS[name]
    return drafter.loop(layer, is_v1)


def make_worker(name: str, layer: str, *positional: Any, **named: Any) -> Any:
    """Return a worker of a layer, whose modules are imported by then and not before."""
    return loop_of(name, layer)(*positional, **named)
