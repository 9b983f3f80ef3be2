"""Integers and truth values of NumPy are scalars everywhere: the answer is that of Python's."""

import copy

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.operations import RECORDS
from specsim.properties.operations.generated.anything import handed_over
from tests.properties.strategies.drawn import valid_calls

LAYERS = {name: load(f"specsim.{name}") for name in ("reference", "gpu")}
WITH_SCALARS = [name for name, operation in RECORDS.items() if operation.contract.scalars]


def as_numpy(spec, value):
    """Return a scalar in the narrowest type of NumPy that holds it, so that arithmetic with it overflows at once."""
    if spec.flag:
        return np.bool_(value)
    kinds = (np.uint8, np.int8, np.int16, np.int32, np.int64)
    return next(kind(value) for kind in kinds if np.iinfo(kind).min <= value <= np.iinfo(kind).max)


def answer(layer, operation, arguments):
    with layer.arrays.poisoned_outputs(0):
        returned = layer.functions[operation](**handed_over(layer, copy.deepcopy(arguments)))
    outputs = returned if isinstance(returned, tuple) else (returned,)
    return [None if output is None else layer.arrays.to_numpy(output).tobytes() for output in outputs]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("operation", WITH_SCALARS)
def test_scalars_of_numpy_are_scalars(operation, name):
    layer = LAYERS[name]
    for arguments in valid_calls(operation, 6 if name == "reference" else 2):
        scalars = {spec.name: as_numpy(spec, arguments[spec.name]) for spec in RECORDS[operation].contract.scalars}
        assert answer(layer, operation, arguments | scalars) == answer(layer, operation, arguments)
