import numpy as np
import pytest

from specsim.rejection import Reason


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("num_requests", [0, 1, 3, 300])
@pytest.mark.parametrize("topk", [1, 4, 17])
def test_every_beam_stands_at_the_last_key(agrees, num_requests, topk, dtype):
    source = np.random.default_rng(9)
    agrees(
        "prepare_for_frozen_kv_draft",
        req_pool_indices=source.integers(0, 99, num_requests),
        seq_lens=source.integers(0, 4, num_requests).astype(dtype),
        topk=topk,
    )


@pytest.mark.parametrize("num_requests", [0, 1, 3, 300, 5000])
def test_the_last_row_of_each_segment_is_selected(agrees, num_requests):
    counts = np.random.default_rng(9).integers(1, 9, num_requests)
    agrees("select_last_verified", num_accepted_tokens=counts.astype(np.int32))


def test_strided_arguments_are_read_where_they_lie(agrees):
    agrees("select_last_verified", num_accepted_tokens=np.arange(1, 30, dtype=np.int32)[3:17:2])
    agrees(
        "prepare_for_frozen_kv_draft", req_pool_indices=np.arange(30)[3:17:2], seq_lens=np.arange(60)[::9][:7], topk=3
    )


def test_counts_and_lengths_out_of_range_are_rejected(rejection):
    assert (
        rejection("select_last_verified", num_accepted_tokens=np.zeros(2, dtype=np.int32)) is Reason.COUNT_OUT_OF_RANGE
    )
    arguments = {"req_pool_indices": np.arange(1), "seq_lens": np.array([2**31]), "topk": 2}
    assert rejection("prepare_for_frozen_kv_draft", **arguments) is Reason.ROW_TOO_SHORT
