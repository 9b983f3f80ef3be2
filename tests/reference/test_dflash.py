import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

INF = float("inf")


def test_a_block_is_its_root_and_masks(equal, i32, i64):
    got = reference.prepare_block_draft(i32([7, 9]), i64([4, 0]), 99, 3)
    equal(got, (i64([7, 99, 99, 9, 99, 99]), i64([4, 5, 6, 0, 1, 2])))


def test_a_window_starts_with_a_page(equal, i32, i64):
    rows = i32([np.zeros(12), np.arange(4, 16), np.arange(20, 32)])
    got = reference.block_draft_metadata(i64([2, 1]), rows, i64([9, 2]), 3, 2, 4)
    table = i32([[24, 25, 26, 27, 28, 29, 30, 0][:8], [4, 5, 6, 7, 0, 0, 0, 0]])
    equal(got, (i64([4, 0]), i32([7, 4]), i32([0, 2, 4]), table))


def test_a_window_beyond_the_text_is_the_row(equal, i32, i64):
    got = reference.block_draft_metadata(i64([1]), i32([np.zeros(5), np.arange(1, 6)]), i64([2]), 2**31 - 1, 3)
    equal(got, (i64([0]), i32([5]), i32([0, 3]), i32([[1, 2, 3, 4, 5]])))


def test_a_block_past_the_row_is_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.block_draft_metadata(i64([1]), i32(np.zeros((2, 5))), i64([3]), 4, 3)
    assert (caught.value.reason, caught.value.what) == (Reason.ROW_TOO_SHORT, "seq_lens[0]")


def test_of_equal_logits_those_with_lower_ids_stay(equal, f32, i32):
    logits = f32([[1, 2, 2, 2], [-0.0, 0, -1, -INF]])
    got = reference.keep_top_k_exactly(logits, i32([2]), 2)
    equal(got, f32([[-INF, 2, 2, -INF], [-0.0, 0, -INF, -INF]]))


def test_a_request_that_keeps_all_leaves_every_row(equal, f32, i32):
    logits = f32([[1, 2, 2], [3, 3, 3]])
    equal(reference.keep_top_k_exactly(logits, i32([1, 3]), 1), logits)


def test_the_bonus_token_follows_the_accepted_drafts(equal, i32, i64):
    got = reference.fill_block_tokens(i64([[5, 6, 7], [1, 2, 3], [8, 8, 9]]), i32([0, 2, 1]), i32([40, 41, 42]))
    equal(got, i64([[40, 7, 0], [2, 3, 41], [8, 42, 0]]))


def test_more_drafts_than_a_block_has_are_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.fill_block_tokens(i64([[5, 6]]), i32([2]), i32([1]))
    assert (caught.value.reason, caught.value.what) == (Reason.COUNT_OUT_OF_RANGE, "num_accepted_drafts[0]")
