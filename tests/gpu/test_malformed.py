"""Calls that are wrong in kind, not in value: both layers refuse them in the same words and keep their hands off."""

import numpy as np
import pytest

from specsim import Reason, SpecRejection, gpu, reference
from specsim.gpu.arrays import from_numpy
from specsim.gpu.switches import debugging

POOL = [np.full((4, 4), 7, np.int64) for _ in range(2)]
ONE_TOKEN = {
    "input_ids": np.array([1]),
    "positions": np.array([0]),
    "out_cache_loc": np.array([1]),
    "page_table": np.array([[1]], np.int32),
    "cache_seqlens": np.array([1], np.int32),
    "cu_seqlens_q": np.array([0, 1], np.int32),
}


def refused(function, *arguments, **named):
    with debugging(), pytest.raises(SpecRejection) as caught:
        function(*arguments, **named)
    return caught.value


@pytest.mark.parametrize("values", [[[1.0, 2.0]], None, 3, "text"], ids=["list", "none", "int", "text"])
@pytest.mark.parametrize("layer", [reference, gpu], ids=["reference", "gpu"])
def test_what_is_no_array_is_missing(layer, values):
    assert refused(layer.fast_topk, values, 1).reason is Reason.MISSING_ARGUMENT


@pytest.mark.parametrize("layer", [reference, gpu], ids=["reference", "gpu"])
def test_one_array_is_no_list_of_buffers(layer):
    pairs = np.array([1]) if layer is reference else from_numpy(np.array([1]))
    assert refused(layer.move_kv_cache, POOL[0], pairs, pairs).reason is Reason.MISSING_ARGUMENT


def test_each_layer_refuses_the_arrays_of_the_other():
    values = np.zeros((1, 2), np.float32)
    assert refused(gpu.fast_topk, values, 1).reason is Reason.WRONG_DEVICE
    assert refused(reference.fast_topk, from_numpy(values), 1).reason is Reason.WRONG_DEVICE


@pytest.mark.parametrize("page", [4, 9, -1])
@pytest.mark.parametrize("layer", [reference, gpu], ids=["reference", "gpu"])
def test_pages_outside_the_pool_are_refused_and_nothing_is_written(layer, page):
    arguments = ONE_TOKEN | {"page_table": np.array([[page]], np.int32)}
    pool = [buffer.copy() for buffer in POOL]
    if layer is gpu:
        arguments = {name: from_numpy(value) for name, value in arguments.items()}
        pool = [from_numpy(buffer) for buffer in pool]
    rejection = refused(layer.target_forward, pool, **arguments)
    assert rejection.reason is Reason.SLOT_OUT_OF_RANGE
    assert rejection.what == "page_table[0, 0]"
    assert all((np.asarray(buffer.cpu() if layer is gpu else buffer) == 7).all() for buffer in pool)


@pytest.mark.parametrize("layer", [reference, gpu], ids=["reference", "gpu"])
def test_slots_and_tokens_fit_the_type_that_stores_them(layer):
    carry = from_numpy if layer is gpu else np.asarray
    rows = np.zeros((2, 3), np.int32)
    one, zero, slots = np.array([1]), np.array([0]), np.array([2**31])
    rejection = refused(layer.assign_req_to_token_pool, carry(one), carry(rows), carry(zero), carry(one), carry(slots))
    assert rejection.reason is Reason.SLOT_OUT_OF_RANGE
    root = np.zeros((1, 1), np.int64)
    links = (carry(root), carry(root - 1), carry(root - 1))
    rejection = refused(layer.verify_tree_greedy, carry(root), *links, carry(root + 2**31), 0)
    assert rejection.reason is Reason.TOKEN_OUT_OF_RANGE
