import numpy as np
import pytest

from specsim.rejection import Reason


@pytest.mark.parametrize(
    "lengths",
    [[3, 1, 2], [1, 1, 1], [5], [], np.random.default_rng(8).integers(1, 9, 600).tolist(), [2000, 3]],
    ids=["ragged", "single-tokens", "one-request", "no-request", "600-requests", "long"],
)
def test_prompts_are_rotated(agrees, lengths):
    agrees(
        "rotate_prefill_input_ids",
        input_ids=np.arange(sum(lengths), dtype=np.int64) + 10,
        extend_lens=np.array(lengths, dtype=np.int32),
        tail_tokens=np.arange(len(lengths), dtype=np.int64) + 5000,
    )


def test_strided_prompts_are_rotated(agrees):
    agrees(
        "rotate_prefill_input_ids",
        input_ids=np.arange(30)[3:15:2],
        extend_lens=np.array([9, 2, 9, 4], dtype=np.int32)[1::2],
        tail_tokens=np.arange(90, 99)[::5],
    )


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("num_requests", [0, 1, 3, 300])
@pytest.mark.parametrize("num_draft_tokens", [1, 4, 17])
def test_extend_inputs_have_a_fixed_width(agrees, num_requests, num_draft_tokens, dtype):
    source = np.random.default_rng(9)
    agrees(
        "prepare_for_extend_to_fill_draft_kvcache",
        seq_lens=source.integers(0, 100, num_requests).astype(dtype),
        num_accepted_tokens=source.integers(1, num_draft_tokens + 1, num_requests).astype(np.int32),
        num_draft_tokens=num_draft_tokens,
    )


def test_bad_lengths_are_rejected(rejection):
    assert (
        rejection(
            "rotate_prefill_input_ids",
            input_ids=np.arange(4),
            extend_lens=np.array([2, 1], dtype=np.int32),
            tail_tokens=np.arange(2),
        )
        is Reason.INCONSISTENT_LENGTHS
    )
    assert (
        rejection(
            "prepare_for_extend_to_fill_draft_kvcache",
            seq_lens=np.array([3]),
            num_accepted_tokens=np.array([5], dtype=np.int32),
            num_draft_tokens=4,
        )
        is Reason.COUNT_OUT_OF_RANGE
    )


COUNTS = {
    "ragged": [3, 1, 4],
    "one-request": [6],
    "no-request": [],
    "600-requests": np.random.default_rng(8).integers(1, 9, 600).tolist(),
    "longer-than-a-block": [70, 1, 33],
}


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_ragged_extends_are_laid_out(agrees, counts, dtype):
    source = np.random.default_rng(9)
    lengths = (np.array(counts) + source.integers(0, 50, len(counts))).astype(dtype)
    agrees(
        "create_extend_after_decode_spec_info",
        input_ids=np.arange(sum(counts), dtype=np.int64) + 100,
        seq_lens=lengths,
        num_accepted_tokens=np.array(counts, dtype=np.int32),
    )


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_ragged_metadata_is_laid_out(agrees, counts):
    source = np.random.default_rng(9)
    surplus = 7 * (len(counts) % 2 == 0)
    lengths = np.array(counts, dtype=np.int64) + source.integers(0, 50, len(counts))
    width = int(lengths.max(initial=0)) + 3
    agrees(
        "generate_attn_arg_prefill",
        req_pool_indices=source.permutation(len(counts)) + 1,
        req_to_token=source.integers(1, 10**6, (len(counts) + 1, width)).astype(np.int32),
        kv_lens=lengths,
        num_accepted_tokens=np.array(counts, dtype=np.int32),
        kv_lens_sum=int(lengths.sum()) + surplus,
    )


def test_ragged_metadata_reads_strided_rows(agrees):
    agrees(
        "generate_attn_arg_prefill",
        req_pool_indices=np.array([2, 9, 1])[::2],
        req_to_token=np.arange(120, dtype=np.int32).reshape(12, 10).T[2:8, ::2],
        kv_lens=np.array([3, 5], dtype=np.int32),
        num_accepted_tokens=np.array([1, 2], dtype=np.int32),
        kv_lens_sum=9,
    )


def test_ragged_counts_that_do_not_add_up_are_rejected(rejection):
    counts = np.array([2, 1], dtype=np.int32)
    asked = {"seq_lens": np.array([5, 5]), "num_accepted_tokens": counts}
    reason = rejection("create_extend_after_decode_spec_info", input_ids=np.arange(4), **asked)
    assert reason is Reason.INCONSISTENT_LENGTHS
    rows = np.ones((3, 4), dtype=np.int32)
    asked = {"req_pool_indices": np.array([1, 2]), "req_to_token": rows, "num_accepted_tokens": counts}
    reason = rejection("generate_attn_arg_prefill", kv_lens=np.array([3, 3]), kv_lens_sum=5, **asked)
    assert reason is Reason.INCONSISTENT_LENGTHS
