import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim import Reason, SpecRejection, reference
from specsim.reference.margins import MARGINS

INF = float("inf")


@pytest.fixture
def tree(f32, i64):
    """Return two chains of three nodes over three tokens."""
    logits = f32([[0, 5, 0], [0, 0, 5], [5, 0, 0], [5, 0, 0], [0, 0, 5], [5, 0, 0]])
    return {
        "candidates": i64([[0, 1, 2], [0, 1, 2]]),
        "retrieve_index": i64([[0, 1, 2], [3, 4, 5]]),
        "retrieve_next_token": i64([[1, 2, -1], [1, 2, -1]]),
        "retrieve_next_sibling": i64([[-1, -1, -1], [-1, -1, -1]]),
        "logits": logits,
        "num_steps": 2,
    }


@pytest.fixture
def sampled(tree, f32, i32):
    """Return the same with coins of one half and no filters."""
    return {
        **tree,
        "uniform_samples": f32([[0.5] * 3] * 2),
        "uniform_samples_for_final_sampling": f32([0.5, 0.5]),
        "temperature": f32([1, 0]),
        "top_k": i32([9, 9]),
        "top_p": f32([1, 1]),
        "min_p": f32([0, 0]),
        "threshold_single": f32([1, 1]),
        "threshold_acc": f32([1, 1]),
    }


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_greedy_acceptance(dtype, tree, equal, i32):
    got = reference.verify_tree_greedy_from_logits(**{**tree, "logits": tree["logits"].astype(dtype)})
    equal(got, (i32([1, 2, 0, 0, 0, 0]), i32([[0, 1, 2], [3, -1, -1]]), i32([2, 0])))


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_sampled_acceptance_of_a_mixed_batch(dtype, sampled, equal, i32):
    got = reference.verify_tree_sampled_from_logits(**{**sampled, "logits": sampled["logits"].astype(dtype)})
    equal(got, (i32([1, 2, 0, 0, 0, 0]), i32([[0, 1, 2], [3, -1, -1]]), i32([2, 0])))


def test_a_filter_leaves_one_token(sampled, equal, i32, f32):
    top_k = i32([1, 1])
    coins = f32([[0.999] * 3] * 2)
    got = reference.verify_tree_sampled_from_logits(**{**sampled, "uniform_samples": coins, "top_k": top_k})
    equal(got[2], i32([2, 0]))
    got = reference.verify_tree_sampled_from_logits(**{**sampled, "uniform_samples": coins})
    equal(got[2], i32([0, 0]))


def test_rows_off_the_path_have_no_influence(sampled, equal, f32):
    before = reference.verify_tree_sampled_from_logits(**sampled)
    logits = sampled["logits"].copy()
    logits[4:] = f32([[-9, 7, -INF], [3, 3, 3]])
    equal(reference.verify_tree_sampled_from_logits(**{**sampled, "logits": logits}), before)


@pytest.mark.parametrize(
    ("name", "place", "value", "reason"),
    [
        ("logits", (3, 1), INF, Reason.INFINITE_LOGIT),
        ("logits", (5,), -INF, Reason.EMPTY_DISTRIBUTION),
        ("temperature", (0,), 2.0**21, Reason.TEMPERATURE_OUT_OF_RANGE),
        ("uniform_samples_for_final_sampling", (1,), 1.0, Reason.COIN_OUT_OF_RANGE),
        ("retrieve_next_token", (0, 1), 1, Reason.CYCLIC_TREE),
        ("retrieve_index", (0, 1), 4, Reason.NODE_OUT_OF_RANGE),
        ("top_p", (0,), 0.0, Reason.PROBABILITY_OUT_OF_RANGE),
    ],
)
def test_rejections(name, place, value, reason, sampled):
    sampled[name][place] = value
    with pytest.raises(SpecRejection) as caught:
        reference.verify_tree_sampled_from_logits(**sampled)
    assert caught.value.reason is reason


def test_greedy_requests_have_no_margin_and_others_that_of_their_walk(sampled, f32):
    call = {**sampled, "strict": True, "skip_duplicates": True}
    far, greedy = MARGINS["verify_tree_sampled_from_logits"](call)
    assert far > 1e4
    assert greedy == INF
    mass = reference.target_probabilities(
        **{name: call[name] for name in ("logits", "temperature", "top_k", "top_p", "min_p")}, num_draft_tokens=3
    )[0, 1]
    call["uniform_samples"] = f32([[mass, 0.5, 0.5], [0.5] * 3])
    assert MARGINS["verify_tree_sampled_from_logits"](call)[0] < 1
