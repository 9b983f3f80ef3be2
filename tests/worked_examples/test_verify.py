"""K.2 and K.4: the tree of K.1 verified greedily, and a sampled tree."""

import numpy as np
import pytest

from specsim.counts import count_tokens
from tests.worked_examples.numbers import (
    ACCEPT_INDEX,
    DRAFT_TOKEN,
    NEXT_SIBLING,
    NEXT_TOKEN,
    PREDICT,
    RETRIEVE_INDEX,
    SEQ_LENS,
    TARGET_PREDICT,
    f32,
    i32,
    i64,
)

REJECTED = [[99, *row[1:]] for row in TARGET_PREDICT]
ROWS = [
    [0.05, 0.30, 0.25, 0.25, 0.15],
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.1, 0.1, 0.1, 0.3, 0.4],
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.0, 0.5, 0.5, 0.0, 0.0],
]


@pytest.mark.parametrize(
    ("target_predict", "predict", "accept_index", "num_accepted_drafts", "new_lengths"),
    [
        (TARGET_PREDICT, PREDICT, ACCEPT_INDEX, [2, 3], [10, 9]),
        (REJECTED, [99, 0, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0], [[0, -1, -1, -1], [6, -1, -1, -1]], [0, 0], [8, 6]),
    ],
    ids=["accepted", "everything rejected"],
)
def test_k2_greedy(target_predict, predict, accept_index, num_accepted_drafts, new_lengths, computes):
    arguments = {
        "candidates": i64(DRAFT_TOKEN).reshape(2, 6),
        "retrieve_index": i64(RETRIEVE_INDEX),
        "retrieve_next_token": i64(NEXT_TOKEN),
        "retrieve_next_sibling": i64(NEXT_SIBLING),
        "target_predict": i64(target_predict),
        "num_steps": 3,
    }
    expected = {
        "predict": i32(predict),
        "accept_index": i32(accept_index),
        "num_accepted_drafts": i32(num_accepted_drafts),
    }
    computes("verify_tree_greedy", arguments, expected)
    assert (i64(SEQ_LENS) + count_tokens(i64(num_accepted_drafts))).tolist() == new_lengths


def test_k2_output_and_bonus_tokens(computes):
    accept_tokens = i32([[12, 23, 70, 0], [31, 42, 63, 80]])
    computes(
        "gather_accept_tokens",
        {"predict": i32(PREDICT), "accept_index": i32(ACCEPT_INDEX)},
        {"accept_tokens": accept_tokens},
    )
    computes(
        "fill_bonus_tokens",
        {"accept_tokens": accept_tokens, "num_accepted_tokens": i32([3, 4])},
        {"bonus_tokens": i32([70, 80])},
    )


@pytest.mark.parametrize(
    ("coins", "final", "strict", "path", "output", "rejected"),
    [
        ({0: 0.45, 2: 0.90}, 0.6, True, [0, 2], [2, 3], [(0, 1), (2, 4)]),
        ({0: 0.45, 2: 0.35}, 0.6, True, [0, 2, 4], [2, 4, 2], [(0, 1)]),
        ({0: 0.80}, 0.99, True, [0], [4], [(0, 1), (0, 2)]),
        ({0: 0.30, 1: 0.33}, 0.30, False, [0, 1], [1, 1], [(1, 3)]),
        ({0: 0.30, 2: 0.99}, 0.30, True, [0, 2], [2, 1], [(0, 1), (2, 4)]),
    ],
    ids=["A", "B", "C", "D by the older rule", "D"],
)
def test_k4_sampled(coins, final, strict, path, output, rejected, computes):
    """Node i holds token i. That of D is a coin that equals the probability of the first child."""
    draft_probs = np.zeros((1, 5, 5), dtype=np.float32)
    predict, padding = np.zeros(5, dtype=np.int32), [-1] * (3 - len(path))
    predict[path] = output
    arguments = {
        "candidates": i64([[0, 1, 2, 3, 4]]),
        "retrieve_index": i64([[0, 1, 2, 3, 4]]),
        "retrieve_next_token": i64([[1, 3, 4, -1, -1]]),
        "retrieve_next_sibling": i64([[-1, 2, -1, -1, -1]]),
        "uniform_samples": f32([[coins.get(node, 0.5) for node in range(5)]]),
        "uniform_samples_for_final_sampling": f32([final]),
        "target_probs": f32([ROWS]),
        "draft_probs": draft_probs.copy(),
        "threshold_single": f32([1]),
        "threshold_acc": f32([1]),
        "num_steps": 2,
        "strict": strict,
    }
    for node, token in rejected:
        draft_probs[0, node, token] = ROWS[node][token]
    expected = {
        "predict": predict,
        "accept_index": i32([path + padding]),
        "num_accepted_drafts": i32([len(path) - 1]),
        "draft_probs": draft_probs,
    }
    computes("tree_speculative_sampling_target_only", arguments, expected)
