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
