"""Comparison of whole objects: entries, shapes and dtypes."""

import numpy as np
import pytest


def assert_arrays_equal(got, expected):
    got = got if isinstance(got, tuple) else (got,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(got) == len(expected)
    for place, (one, other) in enumerate(zip(got, expected, strict=True)):
        if other is None:
            assert one is None
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape), f"output {place}"
        np.testing.assert_array_equal(one, other, err_msg=f"output {place}")


@pytest.fixture
def equal():
    return assert_arrays_equal


@pytest.fixture
def i64():
    return lambda value: np.array(value, dtype=np.int64)


@pytest.fixture
def i32():
    return lambda value: np.array(value, dtype=np.int32)


@pytest.fixture
def f32():
    return lambda value: np.array(value, dtype=np.float32)
