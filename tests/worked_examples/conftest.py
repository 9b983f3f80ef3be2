"""Section K of the semantics, number by number, on every layer: what the reference and the kernels have to compute."""

import os
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.contracts.binding import bind, defined_mask
from specsim.operations import RECORDS
from specsim.vectors.worked import FILE, call_id, worked_calls, write_calls

ORACLE = "specsim.reference"
LAYERS = (ORACLE, "specsim.gpu")
WRITES_CALLS = "SPECSIM_WRITE_WORKED" in os.environ


def noting(backend, calls):
    """Return a backend that keeps what its operations are called with, by id, before it calls them."""

    def noted(name, function):
        def call(**arguments):
            kept = {one: copied(value) for one, value in arguments.items()}
            calls[call_id(name, kept)] = name, kept
            return function(**arguments)

        return call

    noted_ones = {name: noted(name, function) for name, function in backend.functions.items() if name in RECORDS}
    return replace(backend, functions={**backend.functions, **noted_ones})


def copied(value):
    if isinstance(value, list | tuple):
        return [copied(one) for one in value]
    return np.array(value, order="C") if isinstance(value, np.ndarray) else value


@cache
def kept_calls():
    return {call_id(name, one): (name, one) for name, ones in worked_calls().items() for one in ones}


@pytest.fixture(params=LAYERS)
def backend(request):
    """Return a layer, for whole runs."""
    return load(request.param)


@pytest.fixture
def operations(backend):
    """Return the operations of a layer; they take and return NumPy arrays. The reference's calls are vectors, too."""
    calls = {}
    yield noting(backend, calls) if backend.name == ORACLE else backend
    missing = calls.keys() - kept_calls().keys()
    if missing and WRITES_CALLS:
        write_calls(FILE, {**kept_calls(), **calls})
        worked_calls.cache_clear()
        kept_calls.cache_clear()
    elif missing:
        names = sorted({calls[one][0] for one in missing})
        raise AssertionError(f"{FILE.name} lacks calls of {names}: SPECSIM_WRITE_WORKED=1 pytest tests/worked_examples")


@pytest.fixture
def computes(operations):
    """Compare outputs and written arguments, by name, with numbers: their dtypes, shapes, and every defined entry."""

    def check(operation, arguments, expected):
        contract = RECORDS[operation].contract
        outcome = operations.run(operation, arguments)
        bindings = bind(operation, contract, outcome.arguments)
        known = {**outcome.arguments, **expected}
        assert expected.keys() <= outcome.outputs.keys()
        for name, value in expected.items():
            got = outcome.outputs[name]
            assert (got.dtype, got.shape) == (value.dtype, value.shape), name
            mask = defined_mask(contract.by_name[name], value.shape, known, bindings)
            np.testing.assert_array_equal(got[mask], value[mask], err_msg=name)

    return check
