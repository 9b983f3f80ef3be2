import pytest

from specsim import Reason, SpecRejection, reference


def test_tokens_past_the_path_are_zero(equal, i32):
    equal(reference.gather_accept_tokens(i32([5, 6, 7, 8]), i32([[0, 1], [2, -1]])), i32([[5, 6], [7, 0]]))


def test_the_bonus_token_is_the_last_of_its_row(equal, i32):
    equal(reference.fill_bonus_tokens(i32([[5, 6, 0], [7, 0, 0], [1, 2, 3]]), i32([2, 1, 3])), i32([6, 7, 3]))


def test_a_count_of_zero_is_rejected(i32):
    with pytest.raises(SpecRejection) as caught:
        reference.fill_bonus_tokens(i32([[5, 6]]), i32([0]))
    assert caught.value.reason is Reason.COUNT_OUT_OF_RANGE


def test_sources_are_packed_over_requests(equal, i32, i64):
    got = reference.fill_accept_out_cache_loc(i32([[0, 2], [3, -1]]), i64([40, 41, 42, 50, 51, 52]))
    equal(got, i64([40, 42, 50, 0]))


def test_a_path_into_another_request_is_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.fill_accept_out_cache_loc(i32([[0, 3], [3, -1]]), i64([40, 41, 42, 50, 51, 52]))
    assert caught.value.reason is Reason.NODE_OUT_OF_RANGE


def test_targets_are_the_front_of_the_window(equal, i32, i64):
    got = reference.fill_accept_target_cache_loc(i32([2, 1]), i64([40, 41, 42, 50, 51, 52]), 2)
    equal(got, i64([40, 41, 50, 0, 0, 0]))


def test_compaction_copies(equal, i32, f32):
    values = f32([[0, 1], [2, 3], [4, 5]])
    before = values.copy()
    compacted = reference.compact_accepted_to_front(values, i32([[0, 2]]))
    equal(compacted, f32([[0, 1], [4, 5], [4, 5]]))
    equal(values, before)


def test_a_move_is_a_snapshot_in_every_buffer(equal, i64, f32):
    keys, values = i64([[0], [1], [2], [3]]), f32([0, 10, 20, 30])
    reference.move_kv_cache([keys, values], i64([2, 1, 0]), i64([1, 2, 0]))
    equal((keys, values), (i64([[0], [2], [1], [3]]), f32([0, 20, 10, 30])))


def test_a_pool_without_layers_moves_nothing(i64):
    assert reference.move_kv_cache([], i64([]), i64([])) is None


def test_two_writes_of_one_slot_are_rejected(i64):
    with pytest.raises(SpecRejection) as caught:
        reference.move_kv_cache([i64([0, 1, 2])], i64([1, 1]), i64([1, 2]))
    assert caught.value.reason is Reason.DUPLICATE_SLOT
