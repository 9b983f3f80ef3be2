"""Comparison of the two layers on this machine's device."""

from contextlib import ExitStack

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.contracts.binding import bind, defined_mask
from specsim.gpu.launching.blocks import Blocks
from specsim.gpu.launching.mode import HERE, launching
from specsim.gpu.switches import debugging, poisoned
from specsim.operations import RECORDS
from specsim.rejection import SpecRejection

REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
PATTERNS = (0x5A, 0xA5)


@pytest.fixture
def agrees():
    """Compare defined entries of every output, under two patterns of fresh memory; other arguments stay as given."""

    def check(operation, **arguments):
        contract = RECORDS[operation].contract
        expected = REFERENCE.run(operation, arguments)
        bindings = bind(operation, contract, expected.arguments)
        known = {**expected.arguments, **expected.outputs}
        for pattern in PATTERNS:
            with poisoned(pattern):
                got = GPU.run(operation, arguments)
            for name, value in expected.outputs.items():
                assert_same(got.outputs[name], value, contract.by_name[name], known, bindings)
            for name, value in arguments.items():
                if name not in contract.writes:
                    assert_same(got.arguments[name], value)

    return check


@pytest.fixture
def cut():
    """Return a function that cuts the work of all further launches of a test as it says."""
    with ExitStack() as stack:

        def cut_as(block=HERE.block, chunks=HERE.chunks, sorts=HERE.sorts):
            stack.enter_context(launching(blocks=Blocks(block, chunks, sorts)))

        yield cut_as


@pytest.fixture
def rejection():
    """Return the reason for which both layers reject a call, entries checked."""

    def reason(operation, **arguments):
        with pytest.raises(SpecRejection) as by_reference:
            REFERENCE.run(operation, arguments)
        with pytest.raises(SpecRejection) as by_gpu, debugging():
            GPU.run(operation, arguments)
        assert str(by_gpu.value) == str(by_reference.value)
        return by_gpu.value.reason

    return reason


def assert_same(got, expected, spec=None, known=None, bindings=None):
    """Compare arrays, or lists of arrays, with their shapes and dtypes."""
    if isinstance(expected, list | tuple):
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other, spec, known, bindings)
    elif isinstance(expected, np.ndarray):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        mask = slice(None) if spec is None else defined_mask(spec, expected.shape, known, bindings)
        np.testing.assert_array_equal(got[mask], expected[mask])
    else:
        assert got == expected
