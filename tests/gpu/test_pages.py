import numpy as np
import pytest

from specsim.rejection import Reason

LENGTHS = pytest.mark.parametrize("dtype", ["int64", "int32"])


@LENGTHS
@pytest.mark.parametrize("page_size", [1, 2, 4, 16, 64, 2**31 - 1])
@pytest.mark.parametrize(("num_requests", "num_nodes"), [(0, 4), (1, 1), (5, 8), (70, 33), (3, 1024)])
def test_pages_of_chains_are_kept(agrees, num_requests, num_nodes, page_size, dtype):
    source = np.random.default_rng(num_nodes + page_size)
    kept = source.integers(1, num_nodes, num_requests, endpoint=True)
    agrees(
        "align_evict_mask_to_page_size",
        seq_lens=source.integers(0, 3 * min(page_size, 100), num_requests).astype(dtype),
        evict_mask=(np.arange(num_nodes) >= kept[:, None]).reshape(-1),
        num_draft_tokens=num_nodes,
        page_size=page_size,
    )


@LENGTHS
@pytest.mark.parametrize("page_size", [1, 4, 64])
@pytest.mark.parametrize(("num_requests", "num_nodes"), [(0, 4), (1, 1), (5, 8), (600, 7), (3, 900)])
def test_trees_move_and_give_back(agrees, num_requests, num_nodes, page_size, dtype):
    source = np.random.default_rng(num_nodes + page_size)
    drafts = source.integers(0, num_nodes, num_requests).astype(np.int32)
    lengths = source.integers(0, 200, num_requests)
    paths = [
        request * num_nodes + np.concatenate([[0], source.permutation(num_nodes - 1)[:count] + 1])
        for request, count in enumerate(drafts.tolist())
    ]
    slots = source.permutation(num_requests * num_nodes) + 1
    agrees(
        "get_src_tgt_cache_loc",
        seq_lens=lengths.astype(dtype),
        out_cache_loc=slots,
        accept_indices=np.concatenate([np.zeros(0, dtype=np.int64), *paths]).astype(np.int32),
        num_accepted_drafts=drafts,
        num_draft_tokens=num_nodes,
        page_size=page_size,
    )
    freed = np.maximum(num_nodes + lengths - -(-(lengths + drafts + 1) // page_size) * page_size, 0)
    agrees(
        "get_target_cache_loc",
        num_accepted_drafts=drafts,
        to_free_num_slots=freed.astype(np.int32),
        out_cache_loc=slots,
        num_draft_tokens=num_nodes,
        num_target_slots=int((drafts + 1).sum()),
        num_to_free_slots=int(freed.sum()),
    )


@LENGTHS
@pytest.mark.parametrize(("num_requests", "num_unfinished"), [(0, 0), (1, 0), (1, 1), (7, 3), (300, 170), (1200, 1200)])
def test_lengths_and_counts(agrees, num_requests, num_unfinished, dtype):
    source = np.random.default_rng(num_requests)
    agrees(
        "create_num_accepted_drafts_filter",
        num_accepted_drafts=source.integers(0, 9, num_requests).astype(np.int32),
        unfinished_index=source.permutation(num_requests)[:num_unfinished],
        seq_lens=source.integers(0, 2000, num_requests).astype(dtype),
    )


@pytest.mark.parametrize(("num_requests", "width"), [(0, 1), (1, 1), (6, 4), (700, 3), (3, 900)])
def test_slots_of_unfinished_requests(agrees, num_requests, width):
    source = np.random.default_rng(width)
    drafts = source.integers(0, width, num_requests).astype(np.int32)
    kept = ((drafts + 1) * source.integers(0, 2, num_requests)).astype(np.int32)
    agrees(
        "filter_finished_cache_loc",
        target_slots=source.permutation(int((drafts + 1).sum())) + 1,
        num_accepted_drafts=drafts,
        num_unfinished_tokens=kept,
        num_locations=int(kept.sum()),
    )


def test_views_are_read_and_written_where_they_lie(agrees):
    agrees(
        "align_evict_mask_to_page_size",
        seq_lens=np.array([9, 0, 11])[::2],
        evict_mask=np.repeat(np.array([False, True, True, False, False, True]), 2)[::2],
        num_draft_tokens=3,
        page_size=4,
    )
    agrees(
        "create_num_accepted_drafts_filter",
        num_accepted_drafts=np.array([1, 9, 0, 9], dtype=np.int32)[::2],
        unfinished_index=np.array([1, 9])[::2],
        seq_lens=np.arange(8, dtype=np.int32).reshape(4, 2)[1:3, 1],
    )


@LENGTHS
@pytest.mark.parametrize(("num_nodes", "page_size"), [(8, 4), (33, 16), (1024, 64)])
def test_masks_keep_entries_anywhere(agrees, num_nodes, page_size, dtype):
    source = np.random.default_rng(num_nodes)
    mask = source.random((5, num_nodes)) < 0.7
    mask[np.arange(5), source.integers(0, num_nodes, 5)] = False
    agrees(
        "align_evict_mask_to_page_size",
        seq_lens=source.integers(0, 3 * page_size, 5).astype(dtype),
        evict_mask=mask.reshape(-1),
        num_draft_tokens=num_nodes,
        page_size=page_size,
    )


def test_a_mask_that_keeps_nothing_is_rejected(rejection):
    reason = rejection(
        "align_evict_mask_to_page_size",
        seq_lens=np.array([9]),
        evict_mask=np.array([True, True, True]),
        num_draft_tokens=3,
        page_size=4,
    )
    assert reason is Reason.MALFORMED_PATH
