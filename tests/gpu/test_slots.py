import numpy as np
import pytest

from specsim.rejection import Reason

OFFSETS = pytest.mark.parametrize("dtype", ["int64", "int32"])


def ranges(starts, ends, dtype="int64"):
    return {"start_offsets": np.array(starts, dtype=dtype), "end_offsets": np.array(ends, dtype=dtype)}


def table(num_rows, width):
    return np.arange(num_rows * width, dtype=np.int32).reshape(num_rows, width) + 1000


def both_agree(agrees, rows, req_to_token, offsets):
    total = int(np.sum(offsets["end_offsets"].astype(np.int64) - offsets["start_offsets"]))
    rows = np.array(rows, dtype=np.int64)
    agrees(
        "assign_req_to_token_pool",
        req_pool_indices=rows,
        req_to_token=req_to_token,
        out_cache_loc=np.arange(total) + 1,
        **offsets,
    )
    agrees(
        "assign_extend_cache_locs",
        req_pool_indices=rows,
        req_to_token=req_to_token,
        num_locations=total,
        **offsets,
    )


@OFFSETS
@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ([2, 0, 5], [5, 1, 8]),
        ([2, 3, 5], [5, 3, 8]),
        ([3, 3, 5], [3, 3, 8]),
        ([2, 0, 8], [5, 1, 8]),
        ([0, 0, 0], [8, 8, 8]),
        ([4, 4, 4], [4, 4, 4]),
    ],
    ids=["ranges", "empty-between", "empty-first", "empty-last", "whole-rows", "all-empty"],
)
def test_ranges_of_a_row(agrees, starts, ends, dtype):
    both_agree(agrees, [2, 4, 1], table(5, 8), ranges(starts, ends, dtype))


def test_no_request(agrees):
    both_agree(agrees, [], table(5, 8), ranges([], []))


def test_many_requests_and_empty_ranges(agrees):
    source = np.random.default_rng(7)
    num_requests = 700
    starts = source.integers(0, 6, num_requests)
    ends = starts + source.integers(0, 4, num_requests)
    both_agree(agrees, source.permutation(num_requests) + 1, table(num_requests + 1, 9), ranges(starts, ends))


def test_one_long_range(agrees):
    both_agree(agrees, [1, 2], table(3, 3000), ranges([7, 5], [2999, 6]))


def test_views_are_read_and_written_where_they_lie(agrees):
    base = table(12, 20)
    both_agree(agrees, [2, 4, 1], base[1:11:2, 3:19:2], ranges([2, 0, 5], [5, 1, 8]))


def test_bad_ranges_are_rejected(rejection):
    rows, req_to_token = np.array([1, 2]), table(3, 8)
    assert (
        rejection(
            "assign_req_to_token_pool",
            req_pool_indices=rows,
            req_to_token=req_to_token,
            out_cache_loc=np.arange(3),
            **ranges([0, 0], [2, 2]),
        )
        is Reason.INCONSISTENT_LENGTHS
    )
    assert (
        rejection(
            "assign_req_to_token_pool",
            req_pool_indices=np.array([1, 1]),
            req_to_token=req_to_token,
            out_cache_loc=np.arange(4),
            **ranges([0, 4], [2, 6]),
        )
        is Reason.DUPLICATE_ROW
    )
    assert (
        rejection(
            "assign_extend_cache_locs",
            req_pool_indices=rows,
            req_to_token=req_to_token,
            num_locations=9,
            **ranges([0, 0], [9, 0]),
        )
        is Reason.ROW_TOO_SHORT
    )


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "width"), [(3, 6, 4), (1, 1, 1), (0, 4, 2), (65, 33, 9), (2, 70, 70)]
)
def test_accepted_slots_are_mapped(agrees, num_requests, num_nodes, width, dtype):
    source = np.random.default_rng(num_nodes)
    paths = np.full((num_requests, width), -1, dtype=np.int32)
    for request in range(num_requests):
        count = int(source.integers(0, width))
        below = np.sort(source.permutation(num_nodes - 1)[:count]) + 1
        paths[request, : count + 1] = request * num_nodes + np.concatenate([[0], below])
    agrees(
        "remap_accepted_slots",
        req_pool_indices=source.permutation(num_requests) + 1,
        req_to_token=source.integers(1, 10**6, (num_requests + 1, width + 20)).astype(np.int32),
        seq_lens=source.integers(0, 20, num_requests).astype(dtype),
        out_cache_loc=source.permutation(num_requests * num_nodes) + 1,
        accept_index=paths,
    )


def test_strided_rows_are_remapped(agrees):
    agrees(
        "remap_accepted_slots",
        req_pool_indices=np.array([2, 9, 1])[::2],
        req_to_token=np.arange(120, dtype=np.int32).reshape(12, 10).T[2:8, ::2],
        seq_lens=np.array([3, 1]),
        out_cache_loc=np.arange(90, 102)[::2],
        accept_index=np.array([[0, 2], [3, -1]], dtype=np.int32),
    )


def test_a_path_of_another_request_is_not_mapped(rejection):
    reason = rejection(
        "remap_accepted_slots",
        req_pool_indices=np.array([1, 2]),
        req_to_token=np.ones((3, 6), dtype=np.int32),
        seq_lens=np.array([3, 1]),
        out_cache_loc=np.arange(6),
        accept_index=np.array([[0, 3], [3, -1]], dtype=np.int32),
    )
    assert reason is Reason.NODE_OUT_OF_RANGE
