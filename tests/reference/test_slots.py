import pytest

from specsim import Reason, SpecRejection, reference


def test_ranges_of_a_row_are_written(equal, i32, i64):
    rows = i32([[0, 0, 0], [0, 0, 0], [0, 0, 0]])
    reference.assign_req_to_token_pool(i64([2, 1, 0]), rows, i64([1, 0, 2]), i64([3, 1, 2]), i64([7, 8, 9]))
    equal(rows, i32([[0, 0, 0], [9, 0, 0], [0, 7, 8]]))


def test_one_row_for_two_requests_is_rejected(equal, i32, i64):
    rows = i32([[0, 0], [0, 0]])
    with pytest.raises(SpecRejection) as caught:
        reference.assign_req_to_token_pool(i64([1, 1]), rows, i64([0, 0]), i64([1, 1]), i64([5, 6]))
    assert caught.value.reason is Reason.DUPLICATE_ROW
    equal(rows, i32([[0, 0], [0, 0]]))


def test_ranges_of_a_row_are_read(equal, i32, i64):
    rows = i32([[0, 0, 0], [4, 5, 6], [7, 8, 9]])
    got = reference.assign_extend_cache_locs(i64([2, 1]), rows, i32([1, 0]), i32([3, 1]), 3)
    equal(got, i64([8, 9, 4]))


def test_ranges_that_do_not_add_up_are_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.assign_extend_cache_locs(i64([0]), i32([[0, 0, 0]]), i64([0]), i64([2]), 3)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_a_range_past_the_row_is_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.assign_extend_cache_locs(i64([0]), i32([[0, 0, 0]]), i64([0]), i64([4]), 4)
    assert caught.value.reason is Reason.ROW_TOO_SHORT
