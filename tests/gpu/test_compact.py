import numpy as np
import pytest
import torch

from specsim import gpu
from specsim.gpu.arrays import DEVICE
from specsim.rejection import Reason


def paths(num_requests, num_nodes, width, seed):
    """Return accepted paths that start at the root and ascend, padding -1."""
    source = np.random.default_rng(seed)
    accept_index = np.full((num_requests, width), -1, dtype=np.int32)
    for request in range(num_requests):
        count = source.integers(1, width + 1)
        later = np.sort(source.permutation(num_nodes - 1)[: count - 1]) + 1
        accept_index[request, :count] = request * num_nodes + np.concatenate([[0], later])
    return accept_index


ALL_REJECTED = np.array([[0, -1, -1], [4, -1, -1]], dtype=np.int32)
ALL_ACCEPTED = np.array([[0, 1, 3], [4, 6, 7]], dtype=np.int32)
MIXED = np.array([[0, 2, -1], [4, -1, -1], [8, 9, 11]], dtype=np.int32)
NO_REQUEST = np.zeros((0, 3), dtype=np.int32)
PATHS = pytest.mark.parametrize(
    "accept_index",
    [ALL_REJECTED, ALL_ACCEPTED, MIXED, NO_REQUEST, paths(300, 4, 4, seed=1)],
    ids=["all-rejected", "all-accepted", "mixed", "no-request", "300-requests"],
)


@PATHS
def test_tokens_follow_the_path(agrees, accept_index):
    predict = np.arange(len(accept_index) * 4, dtype=np.int32) + 100
    agrees("gather_accept_tokens", predict=predict, accept_index=accept_index)


@PATHS
def test_the_bonus_token_is_the_last(agrees, accept_index):
    accept_tokens = np.arange(accept_index.size, dtype=np.int32).reshape(accept_index.shape)
    counts = (accept_index >= 0).sum(axis=1).astype(np.int32)
    agrees("fill_bonus_tokens", accept_tokens=accept_tokens, num_accepted_tokens=counts)


@PATHS
def test_sources_and_targets_are_packed(agrees, accept_index):
    out_cache_loc = np.random.default_rng(3).permutation(len(accept_index) * 4) + 1
    counts = (accept_index >= 0).sum(axis=1).astype(np.int32)
    agrees("fill_accept_out_cache_loc", accept_index=accept_index, out_cache_loc=out_cache_loc)
    agrees(
        "fill_accept_target_cache_loc",
        num_accepted_tokens=counts,
        out_cache_loc=out_cache_loc,
        num_steps=accept_index.shape[1] - 1,
    )


def test_packing_counts_the_blocks_before(agrees, cut):
    cut(block=lambda size, most, interpreted: 1024)
    accept_index = paths(700, 9, 5, seed=2)
    counts = (accept_index >= 0).sum(axis=1).astype(np.int32)
    out_cache_loc = np.arange(700 * 9) + 1
    agrees("fill_accept_out_cache_loc", accept_index=accept_index, out_cache_loc=out_cache_loc)
    agrees("fill_accept_target_cache_loc", num_accepted_tokens=counts, out_cache_loc=out_cache_loc, num_steps=4)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("trailing", [(), (1,), (3,), (2, 5), (0,)])
def test_compaction_takes_any_dtype_and_shape(agrees, dtype, trailing):
    values = np.random.default_rng(4).integers(0, 100, (12, *trailing)).astype(dtype)
    agrees("compact_accepted_to_front", values=values, accept_index=MIXED)


def test_compaction_takes_bfloat16():
    values = torch.arange(24, device=DEVICE).reshape(8, 3).bfloat16()
    compacted = gpu.compact_accepted_to_front(values, torch.tensor(ALL_ACCEPTED, device=DEVICE))
    rows = torch.tensor([0, 1, 3, 3, 4, 6, 7, 7], device=DEVICE)
    assert torch.equal(compacted, values[rows])


def test_compaction_holds_in_the_tail_what_engines_hold_there():
    values = torch.arange(8, device=DEVICE) + 10
    compacted = gpu.compact_accepted_to_front(values, torch.tensor(ALL_REJECTED, device=DEVICE))
    assert compacted.tolist() == [10, 10, 10, 13, 14, 10, 10, 17]
    assert values.tolist() == list(range(10, 18))


def test_compaction_reads_offset_and_strided_values(agrees):
    base = np.random.default_rng(5).integers(0, 100, (25, 14)).astype(np.int16)
    agrees("compact_accepted_to_front", values=base[1::2, 3:12:2], accept_index=MIXED)
    agrees("compact_accepted_to_front", values=base[3:15, 1:8], accept_index=MIXED)


def test_compaction_of_wide_rows(agrees):
    values = np.random.default_rng(6).integers(0, 2**31, (12, 1500))
    agrees("compact_accepted_to_front", values=values, accept_index=MIXED)


def test_bad_paths_and_counts_are_rejected(rejection):
    crossing = np.array([[0, 4, -1], [4, -1, -1]], dtype=np.int32)
    gap = np.array([[0, -1, 2], [4, -1, -1]], dtype=np.int32)
    slots = np.arange(8)
    assert rejection("fill_accept_out_cache_loc", accept_index=crossing, out_cache_loc=slots) is (
        Reason.NODE_OUT_OF_RANGE
    )
    assert rejection("compact_accepted_to_front", values=slots, accept_index=gap) is Reason.MALFORMED_PATH
    assert (
        rejection(
            "fill_bonus_tokens",
            accept_tokens=np.zeros((1, 3), dtype=np.int32),
            num_accepted_tokens=np.zeros(1, dtype=np.int32),
        )
        is Reason.COUNT_OUT_OF_RANGE
    )


def test_a_single_entry_with_a_stride(agrees):
    values = np.array([5, 7, 9], dtype=np.int64)[::2][:1]
    agrees("compact_accepted_to_front", values=values, accept_index=np.zeros((1, 1), dtype=np.int32))
