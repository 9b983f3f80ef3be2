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


def test_accepted_slots_are_mapped_and_the_others_marked(i32, i64):
    rows = i32([[0, 0, 0, 0], [1, 0, 0, 9]])
    evicted = reference.remap_accepted_slots(i64([1]), rows, i64([1]), i64([20, 21, 22]), i32([[0, 2]]))
    assert rows.tolist() == [[0, 0, 0, 0], [1, 20, 22, 9]]
    assert evicted.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("row", "length", "path", "reason"),
    [
        ([1, 1], [1, 1], [[0, 2], [3, -1]], Reason.DUPLICATE_ROW),
        ([1, 2], [3, 1], [[0, 2], [3, -1]], Reason.ROW_TOO_SHORT),
        ([1, 2], [1, 1], [[0, 3], [3, -1]], Reason.NODE_OUT_OF_RANGE),
        ([1, 2], [1, 1], [[-1, 0], [3, -1]], Reason.MALFORMED_PATH),
    ],
)
def test_what_cannot_be_mapped_is_rejected_and_nothing_written(i32, i64, row, length, path, reason):
    rows = i32([[0] * 4] * 3)
    with pytest.raises(SpecRejection) as caught:
        reference.remap_accepted_slots(i64(row), rows, i64(length), i64(range(20, 26)), i32(path))
    assert caught.value.reason is reason
    assert not rows.any()
