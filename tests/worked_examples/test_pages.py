"""K.6: which slots V1 keeps of its pages, page size 4."""

import numpy as np
import pytest

from tests.worked_examples.numbers import i32, i64

PAGE_SIZE = 4
WINDOWS = [[101, 102, 103, 104, 105, 106], [112, 113, 114, 115, 116, 117], [126, 127, 128, 129, 130, 131]]
SEQ_LENS, DRAFTS = [9, 8, 10], [1, 0, 3]
TARGETS = [101, 102, 112, 126, 127, 128, 129]


@pytest.mark.parametrize(
    ("length", "num_accepted_tokens", "first_freed"),
    [(9, 1, 3), (9, 2, 3), (9, 4, 7), (11, 1, 1), (11, 2, 5), (8, 1, 4), (10, 2, 2)],
)
def test_k6_chain(length, num_accepted_tokens, first_freed, operations):
    evict_mask = np.arange(8) >= num_accepted_tokens
    operations.align_evict_mask_to_page_size(i64([length]), evict_mask, 8, PAGE_SIZE)
    assert np.flatnonzero(evict_mask).tolist() == list(range(first_freed, 8))


def test_k6_tree_goes_to_the_front_and_the_back_is_freed(computes):
    slots = i64(WINDOWS).reshape(-1)
    computes(
        "get_src_tgt_cache_loc",
        {
            "seq_lens": i64(SEQ_LENS),
            "out_cache_loc": slots,
            "accept_indices": i32([0, 2, 6, 12, 13, 15, 17]),
            "num_accepted_drafts": i32(DRAFTS),
            "num_draft_tokens": 6,
            "page_size": PAGE_SIZE,
        },
        {"source_slots": i64([101, 103, 112, 126, 127, 129, 131]), "to_free_num_slots": i32([3, 2, 0])},
    )
    computes(
        "get_target_cache_loc",
        {
            "num_accepted_drafts": i32(DRAFTS),
            "to_free_num_slots": i32([3, 2, 0]),
            "out_cache_loc": slots,
            "num_draft_tokens": 6,
            "num_target_slots": 7,
            "num_to_free_slots": 5,
        },
        {"target_slots": i64(TARGETS), "to_free_slots": i64([104, 105, 106, 116, 117])},
    )
    assert {slot // PAGE_SIZE for slot in (104, 105, 106, 116, 117)} == {26, 29}


def test_k6_the_request_that_ended_hands_nothing_on(computes):
    computes(
        "create_num_accepted_drafts_filter",
        {"num_accepted_drafts": i32(DRAFTS), "unfinished_index": i64([0, 2]), "seq_lens": i64(SEQ_LENS)},
        {"num_unfinished_tokens": i32([2, 0, 4]), "seq_lens": i64([11, 9, 14])},
    )
    computes(
        "filter_finished_cache_loc",
        {
            "target_slots": i64(TARGETS),
            "num_accepted_drafts": i32(DRAFTS),
            "num_unfinished_tokens": i32([2, 0, 4]),
            "num_locations": 6,
        },
        {"out_cache_loc": i64([101, 102, 126, 127, 128, 129])},
    )
