import pytest

from specsim import Reason, SpecRejection, reference


def test_every_beam_has_row_and_length_of_its_request_and_stands_at_the_last_key(equal, i64):
    got = reference.prepare_for_frozen_kv_draft(i64([4, 7, 2]), i64([5, 1, 0]), 2)
    equal(got, (i64([4, 4, 7, 7, 2, 2]), i64([5, 5, 1, 1, 0, 0]), i64([4, 4, 0, 0, 0, 0])))


def test_the_last_row_of_each_segment_is_selected(equal, i32, i64):
    equal(reference.select_last_verified(i32([3, 1, 4])), i64([2, 3, 7]))
    equal(reference.select_last_verified(i32([])), i64([]))


def test_a_request_without_a_row_is_rejected(i32):
    with pytest.raises(SpecRejection) as caught:
        reference.select_last_verified(i32([3, 0]))
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE
