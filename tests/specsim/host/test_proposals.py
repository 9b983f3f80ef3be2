"""Drafts that are drawn one after another, by hand, and what is refused."""

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.host.proposals import sample_draft_chains, walk_markov_drafts, walk_selector_drafts
from specsim.rejection import Reason, SpecRejection

NONE = -np.inf


def markov_call(**changes: Any) -> dict[str, Any]:
    """Two requests, two drafts, three columns that are the tokens 4, 2 and 0 of five; the second request is greedy."""
    bias = np.zeros((5, 3), dtype=np.float32)
    bias[1], bias[2] = (0, 0, 1), (3, 0, NONE)
    call: dict[str, Any] = {
        "base_logits": np.array([[[0, 1, 0], [1, 0, 2]], [[0, 1, 2], [1, 3, 2]]], dtype=np.float32),
        "bias": bias,
        "roots": np.array([1, 3]),
        "temperatures": np.array([0.5, 0], dtype=np.float32),
        "target_ids": np.array([4, 2, 0]),
        "num_candidates": None,
        "request_rows": np.array([2, 0]),
        "arrivals": np.array([[[9.0, 1, 9], [1, 9, 9]], [[0.1, 9, 9], [0.1, 9, 9]]]),
        "recorded_logits": np.full((3, 2, 5), 7, dtype=np.float32),
    }
    return call | changes


def selector_call(**changes: Any) -> dict[str, Any]:
    """One request, two drafts, two candidates each of four tokens."""
    call: dict[str, Any] = {
        "candidates": np.array([[[3, 1], [0, 2]]]),
        "scores": np.array([[[[0, 1], [8, 8]], [[2, 0], [0, 3]]]], dtype=np.float32),
        "temperatures": np.ones(1, dtype=np.float32),
        "request_rows": np.array([1]),
        "arrivals": np.array([[[9.0, 0.1], [1, 1]]]),
        "recorded_logits": np.zeros((2, 2, 4), dtype=np.float32),
    }
    return call | changes


def chain_call(**changes: Any) -> dict[str, Any]:
    """One request, two drafts, three columns that are the tokens 1, 2 and 3; a draft of 2 makes column 0 likely."""

    def next_logits(draft_tokens: Any) -> Any:
        after = {(): (0, np.log(3), NONE), (2,): (np.log(6), np.log(2), 0)}
        return np.array([after[tuple(row)] for row in draft_tokens.tolist()], dtype=np.float32)

    call: dict[str, Any] = {
        "next_logits": next_logits,
        "temperatures": np.ones(1, dtype=np.float32),
        "top_k": np.array([2], dtype=np.int32),
        "min_p": np.zeros(1, dtype=np.float32),
        "target_ids": np.array([1, 2, 3]),
        "vocab_size": 4,
        "arrivals": np.array([[[1.0, 1, 1], [2.9, 1, 0.001]]]),
    }
    return call | changes


def test_a_walk_by_a_bias():
    """Column 1 of the first request is token 2, whose bias makes column 0 likely and forbids column 2."""
    call = markov_call()
    assert walk_markov_drafts(**call).tolist() == [[2, 4], [0, 2]]
    recorded = call["recorded_logits"]
    assert recorded[2].tolist() == [[1, NONE, 1, NONE, 0], [NONE, NONE, 0, NONE, 4]]
    assert recorded[0].tolist() == [[2, NONE, 1, NONE, 0], [2, NONE, 3, NONE, 1]]
    assert (recorded[1] == 7).all()


def test_candidates_are_kept_before_the_bias():
    bias = np.tile(np.array([9, 0, 0], dtype=np.float32), (5, 1))
    call = markov_call(num_candidates=1, bias=bias)
    assert walk_markov_drafts(**call).tolist() == [[2, 0], [0, 2]]
    assert np.isfinite(call["recorded_logits"][[0, 2]]).sum(axis=2).tolist() == [[1, 1], [1, 1]]


def test_a_row_is_rounded_before_it_is_drawn_from():
    bias = np.full((5, 3), 1.003, dtype=np.float32)
    call = markov_call(bias=bias, base_logits=markov_call()["base_logits"].astype(bfloat16))
    walk_markov_drafts(**call)
    assert call["recorded_logits"][2, 0, 2] == 2


def test_a_walk_among_candidates():
    """Candidate 1 is drawn first, token 1; then the scores of the row of candidate 1 count."""
    call = selector_call()
    assert walk_selector_drafts(**call).tolist() == [[1, 2]]
    assert call["recorded_logits"][1].tolist() == [[NONE, 1, NONE, 0], [0, NONE, 3, NONE]]


def test_a_chain_of_a_draft_model():
    """At 6 to 2 the likelier column arrives first as long as its number is less than three times the other's."""
    chains = sample_draft_chains(**chain_call())
    assert chains.draft_tokens.tolist() == [[2, 1]]
    assert np.allclose(chains.draft_probs, [[[0, 0.25, 0.75, 0], [0, 0.75, 0.25, 0]]], atol=1e-6)
    later = sample_draft_chains(**chain_call(arrivals=np.array([[[1.0, 1, 1], [3.1, 1, 0.001]]])))
    assert later.draft_tokens.tolist() == [[2, 2]]


def test_the_least_share_is_of_the_largest():
    chains = sample_draft_chains(**chain_call(min_p=np.array([0.4], dtype=np.float32)))
    assert np.allclose(chains.draft_probs[0], [[0, 0, 1, 0], [0, 1, 0, 0]])


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        (Reason.INCONSISTENT_LENGTHS, {"roots": np.array([1])}),
        (Reason.INCONSISTENT_LENGTHS, {"recorded_logits": np.zeros((3, 1, 5), dtype=np.float32)}),
        (Reason.TOKEN_OUT_OF_RANGE, {"roots": np.array([1, 5])}),
        (Reason.TOKEN_OUT_OF_RANGE, {"target_ids": np.array([4, 5, 0])}),
        (Reason.BAD_CONFIGURATION, {"target_ids": np.array([4, 4, 0])}),
        (Reason.COUNT_OUT_OF_RANGE, {"num_candidates": 0}),
        (Reason.COUNT_OUT_OF_RANGE, {"num_candidates": 4}),
        (Reason.ROW_OUT_OF_RANGE, {"request_rows": np.array([3, 0])}),
        (Reason.DUPLICATE_ROW, {"request_rows": np.array([2, 2])}),
        (Reason.TEMPERATURE_OUT_OF_RANGE, {"temperatures": np.array([0.5, -1], dtype=np.float32)}),
        (Reason.NEGATIVE_SCORE, {"arrivals": np.full((2, 2, 3), -1.0)}),
        (Reason.NAN_SCORE, {"arrivals": np.full((2, 2, 3), np.nan)}),
        (Reason.NAN_SCORE, {"bias": np.full((5, 3), np.nan, dtype=np.float32)}),
        (Reason.INFINITE_LOGIT, {"bias": np.full((5, 3), np.inf, dtype=np.float32)}),
        (Reason.EMPTY_DISTRIBUTION, {"bias": np.full((5, 3), NONE, dtype=np.float32)}),
    ],
)
def test_a_bad_walk_is_refused_and_records_nothing(reason, changes):
    call = markov_call(**changes)
    before = call["recorded_logits"].copy()
    with pytest.raises(SpecRejection) as refusal:
        walk_markov_drafts(**call)
    assert refusal.value.reason is reason
    assert np.array_equal(call["recorded_logits"], before)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        (Reason.INCONSISTENT_LENGTHS, {"scores": np.zeros((1, 2, 2, 3), dtype=np.float32)}),
        (Reason.TOKEN_OUT_OF_RANGE, {"candidates": np.array([[[3, 4], [0, 2]]])}),
        (Reason.BAD_CONFIGURATION, {"candidates": np.array([[[3, 3], [0, 2]]])}),
        (Reason.EMPTY_DISTRIBUTION, {"scores": np.full((1, 2, 2, 2), NONE, dtype=np.float32)}),
    ],
)
def test_a_bad_walk_among_candidates_is_refused(reason, changes):
    call = selector_call(**changes)
    with pytest.raises(SpecRejection) as refusal:
        walk_selector_drafts(**call)
    assert refusal.value.reason is reason and not call["recorded_logits"].any()


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        (Reason.COUNT_OUT_OF_RANGE, {"top_k": np.array([0], dtype=np.int32)}),
        (Reason.PROBABILITY_OUT_OF_RANGE, {"min_p": np.array([1.5], dtype=np.float32)}),
        (Reason.INCONSISTENT_LENGTHS, {"next_logits": lambda draft_tokens: np.zeros((1, 2), dtype=np.float32)}),
        (Reason.NAN_SCORE, {"next_logits": lambda draft_tokens: np.full((1, 3), np.nan, dtype=np.float32)}),
        (Reason.EMPTY_DISTRIBUTION, {"next_logits": lambda draft_tokens: np.full((1, 3), NONE, dtype=np.float32)}),
    ],
)
def test_a_bad_chain_is_refused(reason, changes):
    with pytest.raises(SpecRejection) as refusal:
        sample_draft_chains(**chain_call(**changes))
    assert refusal.value.reason is reason
