"""All small trees against an implementation, a call of thousands of cases at a time, up to the first that is wrong."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from specsim.conformance.backend import Backend
from specsim.conformance.isolation.heartbeat import Cut, begin_example
from specsim.conformance.limits import Limits
from specsim.conformance.outcomes import Observation
from specsim.conformance.outside import OutsideLimits
from specsim.properties.operations.generated.agreement import PATTERNS, read_only, require_unchanged
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.reach.sizes import is_interpreted
from specsim.properties.strategies.limits import drawing_within
from specsim.properties.suite.small_trees import oracle
from specsim.properties.suite.small_trees.forms import FEW, MANY, Form, Scope
from specsim.properties.unit_of_work import require_device

T = TypeVar("T")

MOST_TRIES = 200
"""Calls that may be made in search of a smaller case."""


@dataclass
class Tried:
    """What became of all cases: how many were tried, and how many were left out by what the implementation declares.

    ``scope`` has the fewest cases that were found to be wrong in one call, and ``error`` is what was wrong.
    """

    cases: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    is_cut: bool = False
    scope: Scope | None = None
    error: Exception | None = None


def calls_of(form: Form, limits: Limits, num_nodes: int, *, interpreted: bool) -> Iterator[Scope]:
    """Yield the cases of each call, in the order in which they are tried."""
    taken = limits.of(form.operation)
    for scope in form.scopes_up_to(num_nodes):
        most = FEW if interpreted else MANY
        # NOTE: a case of a move has at most a pair a node.
        for axis, share in (("request", 1), ("pair", scope.sizes["node"])):
            most = max(1, min(most, taken[axis][-1] // share)) if axis in taken else most
        yield from scope.calls(most)


def try_all(form: Form, backend: Backend, num_nodes: int) -> Tried:
    """Try every case of at most so many nodes, smaller ones first, until one is wrong or time is up."""
    tried = Tried()
    calls = calls_of(form, backend.limits, num_nodes, interpreted=is_interpreted(backend))
    with drawing_within(backend.limits, (form.operation,)):
        try:
            for number, scope in enumerate(calls):
                begin_example()
                try:
                    # NOTE: what is never written shows as one pattern or the other.
                    error_by = partial(error_in, form, backend, pattern=PATTERNS[number % len(PATTERNS)])
                    error = error_by(scope)
                except OutsideLimits as outside:
                    tried.left_out[str(outside)] += len(scope)
                    continue
                tried.cases += len(scope)
                if error is not None:
                    # NOTE: where time is up meanwhile, the whole call is what was found.
                    tried.scope, tried.error = scope, error
                    tried.scope, tried.error = smallest(scope, error, error_by)
                    break
        except Cut:
            tried.is_cut = True
    return tried


def error_in(form: Form, backend: Backend, scope: Scope, pattern: int) -> Exception | None:
    """Return what is wrong with a call of some cases, or None.

    Raises
    ------
    OutsideLimits
        The implementation declares that it takes no such call.
    """
    arguments = form.arguments(scope)
    expected = Observation(getattr(oracle, form.operation)(**arguments))
    try:
        with backend.arrays.poisoned_outputs(pattern), backend.arrays.debugging(False):
            outcome = backend.run(form.operation, arguments)
        difference = difference_beyond_margins(form.operation, arguments, expected, Observation(outcome.outputs))
        if difference is not None:
            raise AssertionError(f"{form.operation}: {difference}")
        require_unchanged(form.operation, read_only(form.operation), arguments, outcome.arguments)
    except OutsideLimits:
        raise
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        require_device(backend)
        return error
    return None


def smallest(scope: Scope, found: T, broken_by: Callable[[Scope], T | None]) -> tuple[Scope, T]:
    """Leave out as many cases of a call as possible, so that the rest is still wrong.

    Halves are tried alone, then smaller parts alone and everything but them: most often one case is left.

    Parameters
    ----------
    scope, found : Scope, any
        The cases of the call, and what is wrong with it.
    broken_by : callable
        Returns what is wrong with a call of some cases, or None.
    """
    parts, tries = 2, 0
    while len(scope) > 1 and tries < MOST_TRIES:
        cut = np.array_split(np.arange(len(scope)), parts)
        others = [np.setdiff1d(np.arange(len(scope)), part) for part in cut] if parts > 2 else []
        for kept in (*cut, *others):
            tries += 1
            broken = None
            with suppress(OutsideLimits):  # NOTE: a module may take no call of so few.
                broken = broken_by(scope[kept])
            if broken is not None:
                scope, found, parts = scope[kept], broken, 2
                break
        else:
            if parts == len(scope):
                break
            parts = min(2 * parts, len(scope))
    return scope, found
