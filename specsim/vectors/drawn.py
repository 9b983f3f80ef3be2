"""The vectors of an operation: its worked examples, calls that its strategies draw, and calls that it refuses."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from specsim.conformance.backend import load
from specsim.conformance.carrying import as_list, labelled
from specsim.conformance.cases import case_arguments
from specsim.conformance.outcomes import Compared, compared, observe
from specsim.conformance.stored_arrays import is_storable
from specsim.operations import RECORDS
from specsim.properties.operations.generated.margin_cases import near_boundaries
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.hunt.cases import iterate_cases
from specsim.vectors.worked import call_id, worked_calls

SHARE_OF_REJECTIONS = 4
"""Of how many cases that are wanted there is one more that is refused."""

MARGIN = "a decision within rounding of its boundary"
NO_FILE = "an argument that no file holds"
REPEATED = "drawn before"


@dataclass(frozen=True)
class Vector:
    """One call: what it should give, or for which reason it is refused, and where it comes from."""

    source: str
    scalars: dict[str, int]
    arrays: dict[str, Any]
    expected: tuple[Compared, ...] = ()
    rejection: str = ""


@dataclass
class Vectors:
    """Those of one operation, and how many calls were left out, by why."""

    vectors: list[Vector] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def vectors_of(operation: str, num_cases: int, seed: int) -> Vectors:
    """Return the vectors of an operation: its worked examples and as many drawn calls as are wanted, each once."""
    found, known = Vectors(), set[str]()
    for source, arguments in _calls_of(operation, num_cases, seed):
        if not _is_held(operation, arguments):
            found.left_out[NO_FILE] += 1
            continue
        call = case_arguments(operation, arguments)
        if call_id(operation, call) in known:
            found.left_out[REPEATED] += 1
            continue
        known.add(call_id(operation, call))
        vector = _vector_of(operation, source, call)
        if vector is None:
            found.left_out[MARGIN] += 1
        else:
            found.vectors.append(vector)
    return found


def _calls_of(operation: str, num_cases: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for arguments in worked_calls().get(operation, ()):
        yield "worked example", arguments
    for arguments in iterate_cases(property_named(f"agreement.{operation}"), seed, num_cases):
        yield "drawn", arguments
    num_refused = -(-num_cases // SHARE_OF_REJECTIONS)
    for arguments in iterate_cases(property_named(f"rejection.{operation}"), seed, num_refused):
        yield "malformed", arguments


def _is_held(operation: str, arguments: dict[str, Any]) -> bool:
    """Return whether files can hold the call as it is: plain arrays, whole numbers, and nothing but its arguments."""
    contract = RECORDS[operation].contract
    if not arguments.keys() <= set(contract.names):
        return False
    scalars = [arguments.get(spec.name) for spec in contract.scalars]
    arrays = [(spec, value) for spec in contract.arrays if (value := arguments.get(spec.name)) is not None]
    return (
        all(one is None or type(one) in (int, bool) for one in scalars)
        # NOTE: a list that is absent looks like one without arrays.
        and all(arguments.get(spec.name) is not None for spec in contract.arrays if spec.each is not None)
        and all((spec.each is not None) == isinstance(value, list | tuple) for spec, value in arrays)
        and all(is_storable(one) for _, value in arrays for one in as_list(value))
    )


def _vector_of(operation: str, source: str, call: dict[str, Any]) -> Vector | None:
    """Return what the reference makes of a call; None where another correct implementation may decide otherwise."""
    contract = RECORDS[operation].contract
    scalars = {spec.name: call[spec.name] for spec in contract.scalars if call[spec.name] is not None}
    arrays = dict(each for spec in contract.arrays for each in labelled(spec.name, call[spec.name]))
    observed = observe(load("specsim.reference"), operation, call)
    if observed.error:
        raise AssertionError(f"{operation} = {observed.error}, but should be arrays or a rejection")
    if observed.rejection:
        return Vector(source, scalars, arrays, rejection=observed.rejection)
    near = near_boundaries(operation, call)
    if near is not None and near.any():
        return None
    return Vector(source, scalars, arrays, tuple(compared(operation, call, observed.outputs)))
