import math

import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

I32, F32 = np.int32, np.float32
LOGITS = np.log(np.array([[2, 3, 5], [4, 2, 2], [7, 2, 1], [1, 1, 8]], np.float64) / 10).astype(F32)
PATHS, PREDICT = np.array([[0, 1], [2, -1]], I32), np.array([2, 0, 1, 7], I32)
NO_ONE = np.zeros((2, 0), np.int64)


def test_shares_of_a_row_by_hand():
    """Rows are the logarithms of tenths: at temperature 1 a token has its own, at 1/2 the share of its square."""
    got = reference.gather_output_logprobs(LOGITS, PATHS, PREDICT, np.array([1, 0.5], F32), NO_ONE, 0)
    expected = [math.log(5 / 10), math.log(4 / 8), math.log(4 / 54)]
    np.testing.assert_allclose(got.output_logprobs[:3], expected, rtol=1e-6)
    assert got.top_tokens.shape == got.listed_logprobs.shape == (4, 0)


def test_greedy_requests_and_raw_scores_count_as_temperature_one():
    raw = reference.gather_output_logprobs(LOGITS, PATHS, PREDICT, None, NO_ONE, 0)
    greedy = reference.gather_output_logprobs(LOGITS, PATHS, PREDICT, np.zeros(2, F32), NO_ONE, 0)
    np.testing.assert_allclose(raw.output_logprobs[:3], np.log([5 / 10, 4 / 8, 2 / 10]), rtol=1e-6)
    assert raw.output_logprobs.tolist() == greedy.output_logprobs.tolist()


def test_the_most_probable_and_the_listed_tokens():
    asked = np.array([[0, -1], [2, 1]])
    got = reference.gather_output_logprobs(LOGITS, PATHS, PREDICT, None, asked, 2)
    assert got.top_tokens[:3].tolist() == [[2, 1], [0, 1], [0, 1]]
    np.testing.assert_allclose(got.top_logprobs[1], np.log([4 / 8, 2 / 8]), rtol=1e-6)
    np.testing.assert_allclose(got.listed_logprobs[0], [math.log(2 / 10), 0], rtol=1e-6)
    np.testing.assert_allclose(got.listed_logprobs[2], np.log([1 / 10, 2 / 10]), rtol=1e-6)


@pytest.mark.parametrize(("is_clamped", "expected"), [(True, float(np.finfo(F32).min)), (False, -math.inf)])
def test_what_is_impossible(is_clamped, expected):
    logits = np.array([[0, -np.inf, 0]], F32)
    got = reference.gather_output_logprobs(
        logits, np.array([[0]], I32), np.array([1], I32), None, np.array([[1]]), 3, is_clamped
    )
    assert (got.output_logprobs[0], got.listed_logprobs[0, 0], got.top_logprobs[0, 2]) == (expected,) * 3
    assert got.top_tokens.tolist() == [[0, 2, 1]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"logits": np.full((4, 3), -np.inf, F32)}, Reason.EMPTY_DISTRIBUTION),
        ({"logits": np.full((4, 3), np.inf, F32)}, Reason.INFINITE_LOGIT),
        ({"temperature": np.array([1, 2.0**21], F32)}, Reason.TEMPERATURE_OUT_OF_RANGE),
        ({"predict": np.array([3, 0, 1, 0], I32)}, Reason.TOKEN_OUT_OF_RANGE),
        ({"token_ids": np.array([[0], [3]])}, Reason.TOKEN_OUT_OF_RANGE),
        ({"accept_index": np.array([[0, 2], [2, -1]], I32)}, Reason.NODE_OUT_OF_RANGE),
        ({"num_top": 4}, Reason.SCALAR_OUT_OF_RANGE),
    ],
)
def test_bad_calls_are_refused(change, reason):
    asked = {"logits": LOGITS, "accept_index": PATHS, "predict": PREDICT, "temperature": None, "token_ids": NO_ONE}
    with pytest.raises(SpecRejection) as caught:
        reference.gather_output_logprobs(**{**asked, "num_top": 1, **change})
    assert caught.value.reason is reason
