import random
import struct

import numpy as np
import pytest

from specsim.conformance.piping.frames import BadFrame, framed, length_of, opened, pack, unpack

ARRAYS = {"a": np.arange(6).reshape(2, 3), "b": np.array([True, False]), "c": np.zeros((0, 3), np.float32)}


def test_a_frame_has_two_lengths_a_header_and_a_body():
    body = pack({"a": np.array([1, 2], np.int32)})
    assert (
        framed({"id": 7}, {"a": np.array([1, 2], np.int32)}) == struct.pack("<II", 9, len(body)) + b'{"id": 7}' + body
    )
    assert framed({"id": 7}, {}) == struct.pack("<II", 9, 0) + b'{"id": 7}'


def test_arrays_come_back_as_they_were():
    frame = framed({"id": 7}, {**ARRAYS, "d": np.array(3, np.int64)})
    header, arrays = opened(frame)
    assert (header, length_of(frame), length_of(frame[:7])) == (b'{"id": 7}', len(frame), None)
    for name, expected in {**ARRAYS, "d": np.array(3, np.int64)}.items():
        assert (arrays[name].dtype, arrays[name].shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(arrays[name], expected)


def test_whatever_is_changed_in_a_frame_is_read_or_refused():
    right, rng, refused = framed({"id": 7}, ARRAYS), random.Random(1), 0
    for _ in range(3000):
        frame = bytearray(right)
        for _ in range(rng.randint(1, 3)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        try:
            length = length_of(frame)
            if length is not None and length <= len(frame):
                opened(frame[:length])
        except BadFrame:
            refused += 1
    assert refused > 1000


def test_what_is_no_safetensors_file_is_refused():
    with pytest.raises(BadFrame, match="a body that is no safetensors file: "):
        unpack(b"no safetensors file")


def test_a_truth_value_is_0_or_1():
    words = b'{"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}'
    with pytest.raises(BadFrame, match="a truth value 2 in x, but should be 0 or 1"):
        unpack(struct.pack("<Q", len(words)) + words + b"\1\2")


def test_a_type_that_no_operation_has_is_refused():
    words = b'{"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    with pytest.raises(BadFrame, match=r"an array x of type F8_E4M3, but should be one of BOOL, BF16, F16, .*U64"):
        unpack(struct.pack("<Q", len(words)) + words + b"\1\2")
