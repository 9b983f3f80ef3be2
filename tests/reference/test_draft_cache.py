import pytest

from specsim import Reason, SpecRejection, reference

ROWS = [[0] * 8, [10, 11, 12, 13, 14, 15, 16, 17], [20, 21, 22, 23, 24, 25, 26, 27]]


def test_draft_slots_are_request_major_then_beam_then_step(equal, i32, i64):
    got = reference.assign_draft_cache_locs(i64([2, 1]), i32(ROWS), i64([1, 3]), 2, 2)
    equal(got, i64([21, 22, 23, 24, 13, 14, 15, 16]))


def test_draft_slots_reject_a_row_that_is_too_short(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.assign_draft_cache_locs(i64([1]), i32(ROWS), i64([5]), 2, 2)
    assert caught.value.reason is Reason.ROW_TOO_SHORT


def test_each_step_gets_one_slot_a_beam(equal, i64):
    got = reference.per_step_draft_out_cache_loc(i64([21, 22, 23, 24, 13, 14, 15, 16]), 2, 2)
    equal(got, i64([[21, 23, 13, 15], [22, 24, 14, 16]]))


def test_a_length_that_does_not_divide_is_rejected(i64):
    with pytest.raises(SpecRejection) as caught:
        reference.per_step_draft_out_cache_loc(i64([1, 2, 3]), 2, 2)
    assert caught.value.reason is Reason.NOT_DIVISIBLE


def test_a_beam_sees_the_prefix_and_its_own_entries(i32, i64):
    kv_indices, kv_indptr = reference.generate_draft_decode_kv_indices(
        i64([2, 1]), i32(ROWS), i64([1, 3]), i64([1, 1, 3, 3]), 2, 2
    )
    assert kv_indptr.tolist() == [[0, 2, 4, 8, 12], [0, 3, 6, 11, 16]]
    assert kv_indices.shape == (2, 32)
    assert kv_indices[0, :12].tolist() == [20, 21, 20, 23, 10, 11, 12, 13, 10, 11, 12, 15]
    assert kv_indices[1, :16].tolist() == [20, 21, 22, 20, 23, 24, 10, 11, 12, 13, 14, 10, 11, 12, 15, 16]


def test_positions_that_have_advanced_are_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.generate_draft_decode_kv_indices(i64([1]), i32(ROWS), i64([1]), i64([2]), 1, 2)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS
