"""Q.1.11: lengths, budget, window, metadata, padding, cut and commit of three requests."""

import pytest

from tests.worked_examples.numbers import f32, i32, i64

CONFIDENCE = [[0.9, 0.8, 0.5], [0.6, 0.6, 0.6], [0.95, 0.1, 0.9]]
CANDIDATES = [[10, 11, 12, 13], [30, 31, 32, 33], [50, 51, 52, 53]]
LENGTHS = [7, 5, 9]
LENS = [3, 1, 2]
ROWS = [2, 4, 1]
MAP = [[0] * 12, *([100 * row + position for position in range(12)] for row in range(1, 5))]


@pytest.mark.parametrize(
    ("budget", "least", "verify_lens"),
    [
        (0, 1, [1, 1, 1]),
        (1, 1, [1, 1, 2]),
        (2, 1, [2, 1, 2]),
        (3, 1, [3, 1, 2]),
        (4, 1, [3, 2, 2]),
        (5, 1, [3, 3, 2]),
        (9, 1, [4, 4, 4]),
        (3, 0, [2, 1, 1]),
        (3, 2, [4, 2, 3]),
        (3, 3, [4, 3, 4]),
    ],
)
def test_q1_verify_lens(computes, budget, least, verify_lens):
    arguments = {
        "confidence": f32(CONFIDENCE),
        "num_drafts": None,
        "survival_eps": None,
        "verify_token_budget": budget,
        "max_verify_len": 4,
        "min_verify_len": least,
    }
    computes("schedule_verify_lens", arguments, {"verify_lens": i32(verify_lens)})


def test_q1_window(computes):
    arguments = {
        "candidates": i64(CANDIDATES),
        "verify_lens": i32(LENS),
        "req_pool_indices": i64(ROWS),
        "req_to_token": i32(MAP),
        "seq_lens": i64(LENGTHS),
        "num_tokens": 8,
    }
    expected = {
        "qo_indptr": i32([0, 3, 4, 6]),
        "input_ids": i64([10, 11, 12, 30, 50, 51, 0, 0]),
        "positions": i64([7, 8, 9, 5, 9, 10, 0, 0]),
        "out_cache_loc": i64([207, 208, 209, 405, 109, 110, 0, 0]),
        "window_index": i64([0, 1, 2, 4, 8, 9, -1, -1]),
    }
    computes("ragged_verify_window", arguments, expected)


def test_q1_metadata(computes):
    arguments = {
        "req_pool_indices": i64(ROWS),
        "req_to_token": i32(MAP),
        "seq_lens": i64(LENGTHS),
        "verify_lens": i32(LENS),
        "max_seq_len_k": 12,
        "page_size": 4,
    }
    expected = {
        "cache_seqlens": i32([10, 6, 11]),
        "cu_seqlens_q": i32([0, 3, 4, 6]),
        "cu_seqlens_k": i32([0, 10, 16, 27]),
        "page_table": i32([[50, 51, 52], [100, 101, 102], [25, 26, 27]]),
    }
    computes("ragged_verify_metadata", arguments, expected)


@pytest.mark.parametrize(("num_padded", "padded"), [(4, [3, 1, 2, 2]), (3, [3, 1, 4])])
def test_q1_padding(computes, num_padded, padded):
    arguments = {
        "verify_lens": i32(LENS),
        "num_padded_requests": num_padded,
        "num_tokens": 8,
        "max_verify_len": 2**31 - 1,
    }
    computes("pad_verify_lens_to_bucket", arguments, {"padded_verify_lens": i32(padded)})


def test_q1_scatter(computes):
    """Row i of request b lies at 4b+i; two rows of padding go nowhere."""
    arguments = {
        "values": i64([[1], [2], [3], [4], [5], [6], [7], [8]]),
        "verify_lens": i32(LENS),
        "num_draft_tokens": 4,
    }
    strided = i64([[1], [2], [3], [0], [4], [0], [0], [0], [5], [6], [0], [0]])
    computes("scatter_compact_to_strided", arguments, {"strided": strided})


@pytest.mark.parametrize(("is_compact", "trim"), [(False, [1, 2, 0]), (True, [0, 0, 0])])
def test_q1_cut(computes, is_compact, trim):
    """The greedy walk over all drafts accepts 3, 2 and 0 of them, and goes on with 20, 40 and 9."""
    arguments = {
        "candidates": i64(CANDIDATES),
        "num_accepted_drafts": i32([3, 2, 0]),
        "bonus_tokens": i64([20, 40, 9]),
        "verify_lens": i32(LENS),
        "is_compact": is_compact,
    }
    expected = {"num_kept_drafts": i32([2, 0, 0]), "cut_tokens": i64([13, 31, 9]), "cap_trim_lens": i32(trim)}
    computes("cap_accepted_drafts", arguments, expected)


def test_q1_walk_before_the_cut(computes):
    alone = [[-1] * 4] * 3
    arguments = {
        "candidates": i64(CANDIDATES),
        "retrieve_index": i64(range(12)).reshape(3, 4),
        "retrieve_next_token": i64([[1, 2, 3, -1]] * 3),
        "retrieve_next_sibling": i64(alone),
        "target_predict": i64([[11, 12, 13, 20], [31, 32, 40, 41], [9, 52, 0, 0]]),
        "num_steps": 3,
    }
    expected = {
        "accept_index": i32([[0, 1, 2, 3], [4, 5, 6, -1], [8, -1, -1, -1]]),
        "num_accepted_drafts": i32([3, 2, 0]),
    }
    computes("verify_tree_greedy", arguments, expected)


@pytest.mark.parametrize(
    ("gate", "ring_size", "inject_loc"),
    [
        (None, 0, [207, 208, -1, -1, 405, -1, -1, -1, -1, -1, -1, -1]),
        ([1, 0, 2], 0, [207, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]),
        (None, 5, [12, 13, -1, -1, 20, -1, -1, -1, -1, -1, -1, -1]),
    ],
)
def test_q1_commit(computes, gate, ring_size, inject_loc):
    arguments = {
        "req_pool_indices": i64(ROWS),
        "req_to_token": i32(MAP),
        "seq_lens": i64(LENGTHS),
        "commit_lens": i32([2, 1, 0]),
        "verify_lens": None if gate is None else i32(gate),
        "slot_map": None,
        "num_draft_tokens": 4,
        "ring_size": ring_size,
    }
    positions = i64([7, 8, 9, 10, 5, 6, 7, 8, 9, 10, 11, 12])
    computes("commit_inject_layout", arguments, {"inject_loc": i32(inject_loc), "positions": positions})
