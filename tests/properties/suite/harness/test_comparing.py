"""The public comparison: what it respects, and what it refuses."""

import numpy as np
import pytest

from specsim import load
from specsim.conformance.limits import Limits
from specsim.properties.harness import compare
from specsim.rejection import Reason, SpecRejection

REFERENCE = load("specsim.reference")
TOP_P = {
    "probabilities": np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], dtype=np.float32),
    "top_p": np.array([0.5, 0.6], dtype=np.float32),
}
WALK = {
    "candidates": np.array([[7, 3, 4]]),
    "retrieve_index": np.array([[0, 1, 2]]),
    "retrieve_next_token": np.array([[1, -1, -1]]),
    "retrieve_next_sibling": np.array([[-1, 2, -1]]),
    "target_predict": np.array([[4, 9, 5]]),
    "num_steps": 1,
}
WALKED = REFERENCE.verify_tree_greedy(**WALK)
MOVE = {
    "kv_buffers": [np.arange(4)],
    "target_slots": np.array([1]),
    "source_slots": np.array([2]),
}


def rows(*values):
    return np.array(values, dtype=np.float32)


def test_what_is_returned_is_compared_with_the_reference():
    walked = REFERENCE.verify_tree_greedy(**WALK)
    assert compare("verify_tree_greedy", WALK, walked)
    assert compare("verify_tree_greedy", WALK, walked._asdict(), walked)


def test_the_first_difference_is_reported():
    wrong = REFERENCE.verify_tree_greedy(**WALK)._replace(num_accepted_drafts=np.array([2], dtype=np.int32))
    with pytest.raises(AssertionError, match=r"^verify_tree_greedy: num_accepted_drafts\[0\] = 2, but should be 1$"):
        compare("verify_tree_greedy", WALK, wrong)


def test_undefined_entries_are_not_compared():
    walked = REFERENCE.verify_tree_greedy(**WALK)
    predict = walked.predict.copy()
    predict[1] = 77
    assert compare("verify_tree_greedy", WALK, walked._replace(predict=predict))
    predict[0] = 77
    with pytest.raises(AssertionError, match=r"predict\[0\] = 77"):
        compare("verify_tree_greedy", WALK, walked._replace(predict=predict))


def test_a_row_at_its_boundary_may_fall_either_way_and_one_elsewhere_may_not():
    right, other = [1, 0, 0], [0.5, 0.25, 0.25]
    assert compare("top_p_renorm", TOP_P, rows(right, other), rows(right, other))
    assert not compare("top_p_renorm", TOP_P, rows(other, other), rows(right, other))
    with pytest.raises(AssertionError, match=r"renormalised\[1, 0\] = 1.0"):
        compare("top_p_renorm", TOP_P, rows(right, right), rows(right, other))


def test_free_ties_are_as_right():
    call = {"values": rows([1, 1, 0]), "k": 1}
    other = (rows([1]), np.array([[1]]))
    with pytest.raises(AssertionError):
        compare("fast_topk", call, other)
    assert not compare("fast_topk", call, other, limits=Limits(ties_are_free=True))


def test_what_is_written_is_compared_and_has_to_be_there():
    after = REFERENCE.run("move_kv_cache", MOVE).outputs
    assert compare("move_kv_cache", MOVE, after)
    with pytest.raises(AssertionError, match=r"kv_buffers\[0\]\[1\] = 1, but should be 2"):
        compare("move_kv_cache", MOVE, {"kv_buffers": MOVE["kv_buffers"]})
    with pytest.raises(SpecRejection) as caught:
        compare("move_kv_cache", MOVE, None)
    assert (caught.value.reason, caught.value.what) == (Reason.MISSING_ARGUMENT, "kv_buffers of an answer")


@pytest.mark.parametrize(
    ("operation", "call", "got", "reason"),
    [
        ("verify_tree_gready", WALK, (), Reason.UNKNOWN_NAME),
        ("find_algorithm", WALK, (), Reason.UNKNOWN_NAME),
        ("verify_tree_greedy", {**WALK, "seed": 1}, (), Reason.UNKNOWN_ARGUMENT),
        ("verify_tree_greedy", {"candidates": WALK["candidates"]}, (), Reason.MISSING_ARGUMENT),
        ("verify_tree_greedy", WALK, (np.zeros(3, dtype=np.int32),), Reason.MISSING_ARGUMENT),
        (
            "verify_tree_greedy",
            WALK,
            {**WALKED._asdict(), "x": 1},
            Reason.UNKNOWN_ARGUMENT,
        ),
        ("verify_tree_greedy", {**WALK, "num_steps": -1}, (), Reason.SCALAR_OUT_OF_RANGE),
        ("fast_topk", {"values": rows([1]), "k": 1}, (rows([1]),) * 3, Reason.UNKNOWN_ARGUMENT),
    ],
)
def test_what_cannot_be_compared_is_refused(operation, call, got, reason):
    with pytest.raises(SpecRejection) as caught:
        compare(operation, call, got)
    assert caught.value.reason is reason
