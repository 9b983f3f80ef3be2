"""Margin cases: two correct implementations may decide differently where a coin lies on a boundary; they are counted.

A decision in floating point has a margin, and below the rounding bound it may fall either way. An example in which an
implementation differs from another one in such rows or requests only is no failure; it is counted, and reported.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.conformance.outcomes import Observation, first_difference
from specsim.properties.inside import having
from specsim.properties.operations.generated.ties import AS_RIGHT
from specsim.properties.strategies.limits import limits
from specsim.reference.margins import MARGINS


@dataclass
class Count:
    """How many calls differed near a boundary only, and how many of them had nothing else that was compared."""

    calls: int = 0
    empty_calls: int = 0


_COUNT: ContextVar[Count | None] = ContextVar("margin_cases", default=None)


def counting() -> AbstractContextManager[Count]:
    """Count the margin cases of what runs inside."""
    return having(_COUNT, Count())


def near_boundaries(operation: str, arguments: Mapping[str, Any]) -> NDArray[np.bool_] | None:
    """Return which rows or requests decide within the rounding bound, or None if the operation has no such decision."""
    if operation not in MARGINS:
        return None
    near: NDArray[np.bool_] = MARGINS[operation](arguments) < 1
    return near


def difference_beyond_margins(
    operation: str, arguments: Mapping[str, Any], expected: Observation, observed: Observation
) -> str | None:
    """Return the first difference that no margin excuses, or None; excused ones are counted."""
    difference = first_difference(operation, arguments, expected, observed)
    if difference is None or expected.rejection or expected.error or observed.rejection or observed.error:
        return difference
    tied = None
    if limits().ties_are_free and operation in AS_RIGHT and _are_alike(expected.outputs, observed.outputs):
        tied = AS_RIGHT[operation](arguments, expected.outputs, observed.outputs)
        difference = first_difference(operation, arguments, expected, observed, left_out=tied)
    near = near_boundaries(operation, arguments)
    if difference is None or near is None or not near.any():
        return difference
    left_out = near if tied is None else near | tied
    beyond = first_difference(operation, arguments, expected, observed, left_out=left_out)
    count = _COUNT.get()
    if beyond is None and count is not None:
        count.calls += 1
        count.empty_calls += bool(left_out.all())
    return beyond


def _are_alike(expected: Mapping[str, Any], got: Mapping[str, Any]) -> bool:
    """Return whether what was returned has the shapes and element types that it should have."""
    forms = [
        {name: (np.shape(one), getattr(one, "dtype", None)) for name, one in outputs.items()}
        for outputs in (expected, got)
    ]
    return forms[0] == forms[1]
