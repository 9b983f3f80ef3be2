"""Section K of the semantics, number by number, on every layer: what the reference and the kernels have to compute."""

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.contracts.binding import bind, defined_mask
from specsim.operations import RECORDS

LAYERS = ("specsim.reference", "specsim.gpu")


@pytest.fixture(params=LAYERS)
def operations(request):
    """Return the operations of a layer; they take and return NumPy arrays."""
    return load(request.param)


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
