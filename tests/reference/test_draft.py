import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference


def test_topk_breaks_ties_by_lower_index(equal, f32, i64):
    got = reference.fast_topk(f32([[0.25, 0.5, 0.5, 0.125], [1, 1, 1, 1]]), 3)
    equal(got, (f32([[0.5, 0.5, 0.25], [1, 1, 1]]), i64([[1, 2, 0], [0, 1, 2]])))


def test_topk_of_an_empty_batch(equal, f32, i64):
    equal(reference.fast_topk(f32([]).reshape(0, 4), 2), (f32([]).reshape(0, 2), i64([]).reshape(0, 2)))


def test_topk_rejects_more_than_the_row_holds(f32):
    with pytest.raises(SpecRejection) as caught:
        reference.fast_topk(f32([[1, 2]]), 3)
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE


def test_topk_rejects_nan(f32):
    with pytest.raises(SpecRejection) as caught:
        reference.fast_topk(f32([[1, np.nan]]), 1)
    assert caught.value.reason is Reason.NAN_SCORE


def test_first_step_takes_candidates_as_they_are(equal, f32, i64):
    got = reference.select_top_k_tokens(0, f32([[0.5, 0.25]]), i64([[7, 8]]), None, None, 2)
    expected = (i64([7, 8]), None, f32([[0.5, 0.25]]), f32([[[0.5, 0.25]]]), i64([[7, 8]]), i64([[-1, 0, 1]]))
    equal(got, expected)


def test_later_step_follows_the_better_beam(equal, f32, i64):
    got = reference.select_top_k_tokens(
        1, f32([[0.25, 0.125], [1, 0.5]]), i64([[1, 2], [3, 4]]), i64([[10], [20]]), f32([[0.5, 0.25]]), 2
    )
    expected = (
        i64([3, 1]),
        i64([[20], [10]]),
        f32([[0.25, 0.125]]),
        f32([[[0.125, 0.0625], [0.25, 0.125]]]),
        i64([[1, 2, 3, 4]]),
        i64([[4, 2]]),
    )
    equal(got, expected)


def test_later_step_needs_scores(f32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.select_top_k_tokens(1, f32([[0.5]]), i64([[1]]), None, None, 1)
    assert caught.value.reason is Reason.MISSING_ARGUMENT


def test_kept_candidates_stand_in_flat_id_order(equal, f32, i64):
    scores = [f32([[[0.5, 0.25]]]), f32([[[0.125, 0.0625], [0.25, 0.03125]]])]
    tokens = [i64([[7, 8]]), i64([[1, 2, 3, 4]])]
    parents = [i64([[-1, 0, 1]]), i64([[4, 2]])]
    got = reference.organize_draft_results(scores, tokens, parents, 4)
    equal(got, (i64([[-1, 0, 1]]), i64([[0, 1, 4]]), i64([[7, 8, 3]])))


def test_a_single_step_has_no_parents(equal, f32, i64):
    got = reference.organize_draft_results([f32([[[0.5, 0.25]]])], [i64([[7, 8]])], [i64([[-1, 0, 1]])], 2)
    equal(got, (i64([[]]), i64([[0]]), i64([[7]])))


def test_chain_keeps_everything(equal, i64):
    got = reference.organize_chain_draft_results([i64([[4], [5]]), i64([[6], [7]]), i64([[8], [9]])])
    equal(got, (i64([[-1, 0, 1], [-1, 0, 1]]), i64([[0, 1, 2], [0, 1, 2]]), i64([[4, 6, 8], [5, 7, 9]])))


def test_hot_tokens_are_ids_and_not_offsets(equal, i64):
    equal(reference.map_hot_tokens(i64([[2, 0], [1, 1]]), i64([30, 10, 20])), i64([[20, 30], [10, 10]]))


def test_hot_tokens_reject_an_id_outside_the_draft_vocabulary(i64):
    with pytest.raises(SpecRejection) as caught:
        reference.map_hot_tokens(i64([[3]]), i64([30, 10, 20]))
    assert caught.value.reason is Reason.TOKEN_OUT_OF_RANGE
