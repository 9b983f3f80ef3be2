"""Properties that every operation has: agreement with the reference, any layout, empty batches, and no other writes.

What an output means is the reference's word; which of its entries mean anything is the table's. Laws run with entries
checked, so that a call which no contract allows is named; here one call of two runs as in production.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend, Outcome, load
from specsim.conformance.outcomes import Observation
from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.operations.generated.margin_cases import difference_beyond_margins
from specsim.properties.property import Property
from specsim.properties.reach.situations import tags_of, tell_situations

PATTERNS = (0xA5, 0x5A)
"""Bytes of poison: as integers one is negative and one positive, as truth values one is true and one false."""


@cache
def reference() -> Backend:
    """Return the oracle."""
    return load("specsim.reference")


def require_same_outputs(operation: str, arguments: Mapping[str, Any], expected: Outcome, got: Outcome) -> None:
    """Raise AssertionError where the defined entries, shapes or dtypes of two calls differ beyond a margin."""
    observations = Observation(expected.outputs), Observation(got.outputs)
    difference = difference_beyond_margins(operation, arguments, *observations)
    if difference is not None:
        raise AssertionError(f"{operation}: {difference}")


def read_only(operation: str) -> list[str]:
    """Return the arrays of an operation that it does not write."""
    contract = RECORDS[operation].contract
    return [spec.name for spec in contract.arrays if spec.name not in contract.writes]


def require_unchanged(operation: str, names: Iterable[str], given: Mapping[str, Any], after: Any) -> None:
    """Raise AssertionError where an argument of those names is no longer what was given."""
    for name in names:
        for label, before, now in _pairs(name, given[name], after[name]):
            for place in np.argwhere((before != now) & ((before == before) | (now == now)))[:1]:
                where = ", ".join(map(str, place))
                raise AssertionError(
                    f"{operation}: argument {label}[{where}] = {now[tuple(place)]} after the call, "
                    f"but should be {before[tuple(place)]} as before"
                )


def agrees_with_the_reference(operation: str, backend: Backend, case: strategies.Arguments) -> None:
    """The outputs are the reference's, whatever lay in the output memory, with and without checks of entries."""
    expected = reference().run(operation, case)
    with backend.arrays.poisoned_outputs(PATTERNS[0]), backend.arrays.debugging(False):
        require_same_outputs(operation, case, expected, backend.run(operation, case))
    with backend.arrays.poisoned_outputs(PATTERNS[1]), backend.arrays.debugging():
        require_same_outputs(operation, case, expected, backend.run(operation, case))
    tell_situations(operation, case, expected.outputs)


def layout_does_not_matter(operation: str, backend: Backend, case: strategies.Arguments) -> None:
    """Strided views and views at an offset give what plain arrays of the same values give."""
    expected = backend.run(operation, {name: _plain(value) for name, value in case.items()})
    with backend.arrays.debugging(False):
        require_same_outputs(operation, case, expected, backend.run(operation, case))


def arguments_are_left_alone(operation: str, backend: Backend, case: strategies.Arguments) -> None:
    """Only the arguments that the table says are written change."""
    require_unchanged(operation, read_only(operation), case, backend.run(operation, case).arguments)


def empty_batch_gives_empty_outputs(operation: str, backend: Backend, case: strategies.Arguments) -> None:
    """Without requests the outputs have the right shapes and dtypes, and nothing is written."""
    outcome = backend.run(operation, case)
    require_same_outputs(operation, case, reference().run(operation, case), outcome)
    require_unchanged(operation, [spec.name for spec in RECORDS[operation].contract.arrays], case, outcome.arguments)


def of_operations(
    kind: str,
    names: Iterable[str],
    drawn: Callable[[str], SearchStrategy[Any]],
    law: Callable[[str, Backend, Any], None],
) -> tuple[Property, ...]:
    """Return the property of one kind of some operations, each stated of what is drawn for it."""
    return tuple(Property(f"{kind}.{name}", "", (name,), partial(drawn, name), partial(law, name)) for name in names)


def agreement_properties() -> tuple[Property, ...]:
    """Return agreement, strided, mutation and empty-batch properties of every operation of the table."""
    properties = []
    for name in RECORDS:
        laid_out = partial(strategies.in_any_layout, name)
        empty = partial(strategies.for_operation, name, max_requests=0)
        agrees, tags = partial(agrees_with_the_reference, name), partial(tags_of, name)
        properties += [
            Property(f"agreement.{name}", "", (name,), partial(strategies.for_operation, name), agrees, tags=tags),
            Property(f"strided.{name}", "", (name,), laid_out, partial(layout_does_not_matter, name)),
            Property(f"mutation.{name}", "", (name,), laid_out, partial(arguments_are_left_alone, name)),
            Property(f"empty.{name}", "", (name,), empty, partial(empty_batch_gives_empty_outputs, name)),
        ]
    return tuple(properties)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return np.array(value, order="C") if isinstance(value, np.ndarray) else value


def _pairs(name: str, before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    if before is None:
        return []
    if isinstance(before, list):
        return [(f"{name}[{place}]", given, now) for place, (given, now) in enumerate(zip(before, after, strict=True))]
    return [(name, before, after)]
