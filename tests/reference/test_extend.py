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


def test_ragged_positions_end_at_the_new_length(equal, i32, i64):
    got = reference.create_extend_after_decode_spec_info(i64([12, 23, 70, 31, 42, 63, 80]), i64([10, 9]), i32([3, 4]))
    equal(got, (i64([7, 8, 9, 5, 6, 7, 8]), i32([70, 80])))


@pytest.mark.parametrize(
    ("lengths", "counts", "reason"),
    [
        ([10, 9], [3, 3], Reason.INCONSISTENT_LENGTHS),
        ([2, 9], [3, 4], Reason.INCONSISTENT_LENGTHS),
        ([10, 9], [0, 7], Reason.COUNT_OUT_OF_RANGE),
    ],
)
def test_counts_that_do_not_cut_the_tokens_are_rejected(i32, i64, lengths, counts, reason):
    with pytest.raises(SpecRejection) as caught:
        reference.create_extend_after_decode_spec_info(i64(range(7)), i64(lengths), i32(counts))
    assert caught.value.reason is reason


def test_ragged_metadata_lists_the_keys_of_each_row(equal, i32, i64):
    rows = i32([[0] * 4, [11, 12, 13, 14], [21, 22, 23, 24]])
    got = reference.generate_attn_arg_prefill(i64([2, 1]), rows, i64([3, 2]), i32([1, 2]), 6)
    equal(got, (i32([0, 1, 3]), i32([0, 3, 5]), i32([21, 22, 23, 11, 12, 0])))


@pytest.mark.parametrize(
    ("lengths", "counts", "total", "reason"),
    [
        ([3, 2], [1, 2], 4, Reason.INCONSISTENT_LENGTHS),
        ([3, 2], [1, 3], 6, Reason.INCONSISTENT_LENGTHS),
        ([5, 2], [1, 2], 7, Reason.ROW_TOO_SHORT),
        ([3, 2], [0, 2], 5, Reason.COUNT_OUT_OF_RANGE),
    ],
)
def test_ragged_metadata_refuses_what_does_not_fit(i32, i64, lengths, counts, total, reason):
    rows = i32([[0] * 4, [11, 12, 13, 14], [21, 22, 23, 24]])
    with pytest.raises(SpecRejection) as caught:
        reference.generate_attn_arg_prefill(i64([2, 1]), rows, i64(lengths), i32(counts), total)
    assert caught.value.reason is reason
