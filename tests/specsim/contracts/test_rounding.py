"""How far two correct softmaxes may differ: temperatures that divide logits before the largest is subtracted."""

import numpy as np

from specsim.conformance.outcomes import Observation, first_difference
from specsim.contracts.rounding import is_rounded, largest_exponents

LOGITS = np.array([[46.75, 47.0, -38.5, -np.inf, 45.0, -34.75], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], dtype=np.float32)
WARMTH = np.array([0.7, 1.0], dtype=np.float32)


def softmax(exponents):
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def test_logits_may_be_divided_by_the_temperature_before_the_largest_is_subtracted():
    exact = softmax(LOGITS.astype(np.float64) / WARMTH.astype(np.float64)[:, None])
    single = softmax(LOGITS / WARMTH[:, None])
    half = softmax((LOGITS / WARMTH[:, None]).astype(np.float16).astype(np.float32))
    exponents = largest_exponents(LOGITS, WARMTH)[:, None]
    assert not is_rounded(exact, single).all(), "the case is one in which it matters"
    assert is_rounded(exact, single, exponents).all()
    assert not is_rounded(exact, half, exponents).all()


def test_agreement_of_target_probabilities_knows_their_exponents():
    settings = {"temperature": WARMTH, "top_p": np.ones(2, np.float32), "min_p": np.zeros(2, np.float32)}
    case = {"logits": LOGITS, "top_k": np.array([9, 9], np.int32), "num_draft_tokens": 1, **settings}
    exact = softmax(LOGITS.astype(np.float64) / WARMTH.astype(np.float64)[:, None])
    expected, single, wrong = (
        Observation({"target_probs": rows}) for rows in (exact, softmax(LOGITS / WARMTH[:, None]), softmax(LOGITS))
    )
    assert first_difference("target_probabilities", case, expected, single) is None
    assert first_difference("target_probabilities", case, expected, wrong) is not None


def test_rows_have_the_exponents_of_their_request():
    logits = np.array([[2.0, -6.0], [np.inf, -np.inf], [1.0, 3.0], [4.0, 0.0]], dtype=np.float32)
    temperature = np.array([0.5, 0.0], dtype=np.float32)
    assert largest_exponents(logits, temperature).tolist() == [12.0, 0.0, 0.0, 0.0]
    assert largest_exponents(logits[:0], temperature[:0]).tolist() == []
