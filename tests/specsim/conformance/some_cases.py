"""Cases of a few operations, and what it means that a file keeps them."""

import numpy as np

from specsim.conformance.backend import load
from specsim.conformance.cases import Case, case_arguments, read_case, write_case
from specsim.conformance.outcomes import observe
from specsim.conformance.stored import Provenance

ORACLE = load("specsim.reference")


def make_case(operation, observed=None, **values):
    arguments = case_arguments(operation, values)
    expected = observe(ORACLE, operation, arguments)
    provenance = Provenance("my_kernels", 7, {"specsim": "0.1.0"})
    return Case(operation, f"agreement.{operation}", arguments, expected, observed or expected, "words", provenance)


def bonus_case(observed=None):
    accept_tokens, counts = np.array([[5, 6], [7, 0]], dtype=np.int32), np.array([2, 1], dtype=np.int32)
    return make_case("fill_bonus_tokens", observed, accept_tokens=accept_tokens, num_accepted_tokens=counts)


def bonus_backend(function):
    return ORACLE.with_function("fill_bonus_tokens", function, "faulty")


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and np.array_equal(
            one, other, equal_nan=one.dtype.kind == "f"
        )
    return one == other


def assert_round_trip(case, directory):
    path = write_case(case, directory)
    got = read_case(path)
    assert got.id == case.id
    assert same(got.arguments, case.arguments)
    for one, other in ((got.expected, case.expected), (got.observed, case.observed)):
        assert same(one.outputs, other.outputs)
        assert (one.rejection, one.error) == (other.rejection, other.error)
    assert (got.operation, got.property_name, got.message) == (case.operation, case.property_name, case.message)
    assert got.provenance == case.provenance
    return path
