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
