import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference


def chain(num_nodes, *kept):
    """Return the mask of chains that accept their first nodes."""
    return np.concatenate([np.arange(num_nodes) >= count for count in kept])


@pytest.mark.parametrize(
    ("length", "kept", "freed"),
    [
        (9, 1, [3, 4, 5, 6, 7]),
        (9, 2, [3, 4, 5, 6, 7]),
        (9, 4, [7]),
        (11, 1, [1, 2, 3, 4, 5, 6, 7]),
        (11, 2, [5, 6, 7]),
        (8, 1, [4, 5, 6, 7]),
        (10, 2, [2, 3, 4, 5, 6, 7]),
        (8, 8, []),
    ],
)
def test_the_page_of_the_last_accepted_node_is_kept(i64, length, kept, freed):
    mask = chain(8, kept)
    reference.align_evict_mask_to_page_size(i64([length]), mask, 8, 4)
    assert np.flatnonzero(mask).tolist() == freed


def test_with_one_slot_a_page_a_mask_stays(i32):
    mask = chain(4, 1, 3)
    reference.align_evict_mask_to_page_size(i32([5, 2]), mask, 4, 1)
    assert mask.tolist() == chain(4, 1, 3).tolist()


@pytest.mark.parametrize(
    ("length", "kept", "freed"),
    [
        (8, [6], [4, 5, 7]),
        (9, [2, 5], [3, 4, 6, 7]),
        (11, [0, 7], [5, 6]),
        (9, [3, 4, 6, 7], [0, 1, 2]),
        (8, [1, 3, 5, 6, 7], [0, 2]),
    ],
)
def test_entries_that_are_kept_may_stand_anywhere(i64, length, kept, freed):
    mask = ~np.isin(np.arange(8), kept)
    reference.align_evict_mask_to_page_size(i64([length]), mask, 8, 4)
    assert np.flatnonzero(mask).tolist() == freed


def test_a_mask_that_keeps_nothing_of_a_request_is_rejected(i64):
    given = np.array([False, True, True, True])
    with pytest.raises(SpecRejection) as caught:
        reference.align_evict_mask_to_page_size(i64([3, 3]), given, 2, 4)
    assert caught.value.reason is Reason.MALFORMED_PATH
    assert given.tolist() == [False, True, True, True]


def test_lengths_grow_for_all_and_tokens_count_for_those_who_go_on(i32, i64):
    lengths = i64([9, 8, 10])
    counts = reference.create_num_accepted_drafts_filter(i32([1, 0, 3]), i64([0, 2]), lengths)
    assert counts.tolist() == [2, 0, 4]
    assert lengths.tolist() == [11, 9, 14]


def test_lengths_grow_where_no_request_goes_on(i32, i64):
    lengths = i32([9, 8])
    assert reference.create_num_accepted_drafts_filter(i32([1, 0]), i64([]), lengths).tolist() == [0, 0]
    assert lengths.tolist() == [11, 9]


def test_slots_of_requests_that_go_on_are_kept(equal, i32, i64):
    slots = i64([101, 102, 112, 126, 127, 128, 129])
    kept = reference.filter_finished_cache_loc(slots, i32([1, 0, 3]), i32([2, 0, 4]), 6)
    equal(kept, i64([101, 102, 126, 127, 128, 129]))


@pytest.mark.parametrize(
    ("drafts", "kept", "total", "reason"),
    [
        ([1, 1], [2, 0], 2, Reason.INCONSISTENT_LENGTHS),
        ([1, 0], [2, 1], 2, Reason.INCONSISTENT_LENGTHS),
        ([1, 0], [1, 2], 3, Reason.COUNT_OUT_OF_RANGE),
    ],
)
def test_counts_that_do_not_cut_the_slots_are_rejected(i32, i64, drafts, kept, total, reason):
    with pytest.raises(SpecRejection) as caught:
        reference.filter_finished_cache_loc(i64([7, 8, 9]), i32(drafts), i32(kept), total)
    assert caught.value.reason is reason


WINDOWS = [*range(101, 107), *range(112, 118), *range(126, 132)]
PATHS = [0, 2, 6, 12, 13, 15, 17]


def test_a_tree_moves_to_the_front_and_gives_back_whole_pages(equal, i32, i64):
    drafts = i32([1, 0, 3])
    sources, to_free = reference.get_src_tgt_cache_loc(i64([9, 8, 10]), i64(WINDOWS), i32(PATHS), drafts, 6, 4)
    equal(sources, i64([101, 103, 112, 126, 127, 129, 131]))
    equal(to_free, i32([3, 2, 0]))
    targets, freed = reference.get_target_cache_loc(drafts, to_free, i64(WINDOWS), 6, 7, 5)
    equal(targets, i64([101, 102, 112, 126, 127, 128, 129]))
    equal(freed, i64([104, 105, 106, 116, 117]))


@pytest.mark.parametrize(
    ("paths", "drafts", "reason"),
    [
        ([0, 2, 3], [1, 1], Reason.INCONSISTENT_LENGTHS),
        ([0, 3, 3], [1, 0], Reason.NODE_OUT_OF_RANGE),
        ([1, 2, 3], [1, 0], Reason.MALFORMED_PATH),
        ([0, 0, 3], [1, 0], Reason.MALFORMED_PATH),
    ],
)
def test_what_is_no_path_is_not_moved(i32, i64, paths, drafts, reason):
    with pytest.raises(SpecRejection) as caught:
        reference.get_src_tgt_cache_loc(i64([9, 8]), i64(range(1, 7)), i32(paths), i32(drafts), 3, 4)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("drafts", "freed", "sizes", "reason"),
    [
        ([1, 0], [1, 1], (2, 2), Reason.INCONSISTENT_LENGTHS),
        ([1, 0], [1, 1], (3, 1), Reason.INCONSISTENT_LENGTHS),
        ([1, 0], [2, 1], (3, 3), Reason.COUNT_OUT_OF_RANGE),
    ],
)
def test_counts_that_do_not_fit_a_window_are_rejected(i32, i64, drafts, freed, sizes, reason):
    with pytest.raises(SpecRejection) as caught:
        reference.get_target_cache_loc(i32(drafts), i32(freed), i64(range(1, 7)), 3, *sizes)
    assert caught.value.reason is reason
