import pytest

from specsim import Reason, SpecRejection, reference

ROWS = [[0] * 8, [10, 11, 12, 13, 14, 15, 16, 17], [20, 21, 22, 23, 24, 25, 26, 27]]


def test_draft_slots_are_request_major_then_beam_then_step(equal, i32, i64):
    got, *pairs = reference.assign_draft_cache_locs(i64([2, 1]), i32(ROWS), i64([1, 3]), 2, 2)
    equal(got, i64([21, 22, 23, 24, 13, 14, 15, 16]))
    assert [len(slots) for slots in pairs] == [0, 0]


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


PAGES = [[0] * 16, [*range(4, 16), 24, 25, 26, 27], [*range(16, 24), *range(28, 36)]]


def test_beams_of_a_paged_tree_get_pages_of_their_own(equal, i32, i64):
    slots, sources, targets = reference.assign_draft_cache_locs(i64([1, 2]), i32(PAGES), i64([9, 8]), 2, 3, 4, 2)
    equal(slots, i64([13, 14, 15, 25, 26, 27, 28, 29, 30, 32, 33, 34]))
    equal(sources, i64([12, 0]))
    equal(targets, i64([24, 0]))


@pytest.mark.parametrize(("length", "num_steps", "end"), [(9, 5, 24), (11, 2, 24), (8, 4, 16), (8, 5, 24), (1, 1, 8)])
def test_a_row_reaches_the_last_page_of_the_last_beam(i32, i64, length, num_steps, end):
    for width in (end, end - 1):
        rows = i32([range(width)])
        if width == end:
            slots = reference.assign_draft_cache_locs(i64([0]), rows, i64([length]), 2, num_steps, 4, 3).out_cache_loc
            assert slots.tolist()[num_steps] - length == (end - length // 4 * 4) // 2
            continue
        with pytest.raises(SpecRejection) as caught:
            reference.assign_draft_cache_locs(i64([0]), rows, i64([length]), 2, num_steps, 4, 3)
        assert caught.value.reason is Reason.ROW_TOO_SHORT


def test_too_little_room_for_copies_is_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.assign_draft_cache_locs(i64([1]), i32(PAGES), i64([9]), 2, 3, 4, 0)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_a_chain_goes_on_where_its_text_ends_whatever_the_pages(equal, i32, i64):
    slots, *pairs = reference.assign_draft_cache_locs(i64([1]), i32(PAGES), i64([9]), 1, 3, 4)
    equal(slots, i64([13, 14, 15]))
    assert [len(one) for one in pairs] == [0, 0]


def test_a_beam_on_pages_sees_the_prefix_where_the_text_has_it(i32, i64):
    kv_indices, kv_indptr = reference.generate_draft_decode_kv_indices(
        i64([1, 2]), i32(PAGES), i64([9, 8]), i64([9, 9, 8, 8]), 2, 3, 4
    )
    assert kv_indptr[:2].tolist() == [[0, 10, 20, 29, 38], [0, 11, 22, 32, 42]]
    assert kv_indices[1, 11:22].tolist() == [*range(4, 13), 25, 26]


def test_pages_of_prefix_and_beams(equal, i32, i64):
    got = reference.draft_decode_cascade_metadata(i64([1, 2]), i32(PAGES), i64([9, 8]), 2, 3, 4, 14)
    equal(got.cache_seqlens, i32([8, 8]))
    equal(got.cu_seqlens_q, i32([0, 2, 4]))
    equal(got.page_table, i32([[1, 2, 0], [4, 5, 0]]))
    equal(got.expand_cache_seqlens, i32([[2, 2, 1, 1], [3, 3, 2, 2], [4, 4, 3, 3]]))
    equal(got.expand_page_table, i32([[3, 0], [6, 0], [7, 0], [8, 0]]))


def test_a_page_table_that_ends_before_the_prefix_is_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.draft_decode_cascade_metadata(i64([1]), i32(PAGES), i64([9]), 2, 3, 4, 8)
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS
