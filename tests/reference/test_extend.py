import pytest

from specsim import Reason, SpecRejection, reference


def test_each_prompt_is_rotated_in_itself(equal, i32, i64):
    got = reference.rotate_prefill_input_ids(i64([1, 2, 3, 4, 5, 6]), i32([3, 1, 2]), i64([70, 80, 90]))
    equal(got, i64([2, 3, 70, 80, 6, 90]))


def test_prompts_that_do_not_fill_the_ids_are_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.rotate_prefill_input_ids(i64([1, 2, 3]), i32([2]), i64([70]))
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_the_selected_row_is_that_of_the_bonus_token(equal, i32, i64):
    got = reference.prepare_for_extend_to_fill_draft_kvcache(i64([10, 0]), i32([1, 3]), 3)
    equal(got, (i64([10, 11, 12, 0, 1, 2]), i64([13, 3]), i64([0, 5])))


def test_more_tokens_than_rows_are_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.prepare_for_extend_to_fill_draft_kvcache(i64([10]), i32([4]), 3)
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE
