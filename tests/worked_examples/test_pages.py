"""K.6: what V1 keeps of pages, after a chain and after a tree."""

import numpy as np
import pytest

from tests.worked_examples.numbers import i32, i64

WINDOWS = i64([*range(101, 107), *range(112, 118), *range(126, 132)])
DRAFTS = i32([1, 0, 3])
SOURCES, TARGETS = [101, 103, 112, 126, 127, 129, 131], [101, 102, 112, 126, 127, 128, 129]


@pytest.mark.parametrize(
    ("length", "accepted", "freed"),
    [(9, 1, 3), (9, 2, 3), (9, 4, 7), (11, 1, 1), (11, 2, 5), (8, 1, 4), (10, 2, 2)],
)
def test_k6_chains_free_from_the_next_page_on(computes, length, accepted, freed):
    places = np.arange(8)
    computes(
        "align_evict_mask_to_page_size",
        {"seq_lens": i64([length]), "evict_mask": places >= accepted, "num_draft_tokens": 8, "page_size": 4},
        {"evict_mask": places >= freed},
    )


def test_k6_trees_move_to_the_front_and_free_after(computes):
    computes(
        "get_src_tgt_cache_loc",
        {
            "seq_lens": i64([9, 8, 10]),
            "out_cache_loc": WINDOWS,
            "accept_indices": i32([0, 2, 6, 12, 13, 15, 17]),
            "num_accepted_drafts": DRAFTS,
            "num_draft_tokens": 6,
            "page_size": 4,
        },
        {"source_slots": i64(SOURCES), "to_free_num_slots": i32([3, 2, 0])},
    )
    computes(
        "get_target_cache_loc",
        {
            "num_accepted_drafts": DRAFTS,
            "to_free_num_slots": i32([3, 2, 0]),
            "out_cache_loc": WINDOWS,
            "num_draft_tokens": 6,
            "num_target_slots": 7,
            "num_to_free_slots": 5,
        },
        {"target_slots": i64(TARGETS), "to_free_slots": i64([104, 105, 106, 116, 117])},
    )


def test_k6_who_goes_on(computes):
    computes(
        "create_num_accepted_drafts_filter",
        {"num_accepted_drafts": DRAFTS, "unfinished_index": i64([0, 2]), "seq_lens": i64([9, 8, 10])},
        {"num_unfinished_tokens": i32([2, 0, 4]), "seq_lens": i64([11, 9, 14])},
    )
    computes(
        "filter_finished_cache_loc",
        {
            "target_slots": i64(TARGETS),
            "num_accepted_drafts": DRAFTS,
            "num_unfinished_tokens": i32([2, 0, 4]),
            "num_locations": 6,
        },
        {"out_cache_loc": i64([101, 102, 126, 127, 128, 129])},
    )
