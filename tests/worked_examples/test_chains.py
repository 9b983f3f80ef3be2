"""The chains of semantics B.9b and of scheduled verification, on each layer."""

import numpy as np
import pytest

from tests.worked_examples.numbers import f32, i32, i64

LARGEST = 1 - 2.0**-24
P, Q = [[0.5, 0.5], [1, 0], [0.25, 0.75]], [[0.75, 0.25], [0.5, 0.5]]


def call(drafts, coins, final=0.5):
    return {
        "draft_tokens": i64(drafts),
        "cu_num_drafts": i32([0, 2]),
        "uniform_samples": f32(coins),
        "uniform_samples_for_final_sampling": f32([final]),
        "draft_probs": f32(Q),
        "target_probs": f32(P),
        "max_num_drafts": 2,
    }


def in_logits(arguments):
    """Return the same call with logits, at temperature 1/2 of the target and 2 of the draft."""
    laws = {"draft_logits": (arguments.pop("draft_probs"), 2), "target_logits": (arguments.pop("target_probs"), 0.5)}
    with np.errstate(divide="ignore"):
        logits = {name: np.log(rows) * f32(temperature) for name, (rows, temperature) in laws.items()}
    no_filters = dict.fromkeys(("top_k", "top_p", "min_p"))
    return {**arguments, **logits, "temperature": f32([0.5]), **no_filters, "draft_temperature": f32([2])}


@pytest.mark.parametrize(
    ("drafts", "coins", "tokens", "kept"),
    [
        ([0, 0], [0, 0], [0, 0, 1], 2),
        ([0, 0], [LARGEST, LARGEST], [0, 0, 1], 2),
        ([0, 1], [0.333, 0], [0, 0, -1], 1),
        ([0, 1], [0.334, 0], [1, -1, -1], 0),
        ([1, 0], [LARGEST, LARGEST], [1, 0, 1], 2),
        ([1, 1], [LARGEST, 0], [1, 0, -1], 1),
    ],
)
def test_b9b_a_block_of_two_drafts(drafts, coins, tokens, kept, computes):
    expected = {"output_tokens": i32([tokens]), "num_accepted_drafts": i32([kept])}
    computes("chain_block_verification", call(drafts, coins), expected)
    computes("chain_block_verification_from_logits", in_logits(call(drafts, coins)), expected)


@pytest.mark.parametrize(("coin", "tokens", "kept"), [(0.666, [0, 0, 1], 2), (0.667, [1, -1, -1], 0)])
def test_b9_token_by_token_the_first_coin_ends_it(coin, tokens, kept, computes):
    expected = {"output_tokens": i32([tokens]), "num_accepted_drafts": i32([kept])}
    computes("chain_speculative_sampling", call([0, 0], [coin, 0]), expected)
    computes("chain_speculative_sampling_from_logits", in_logits(call([0, 0], [coin, 0])), expected)


@pytest.mark.parametrize(
    ("num_verified", "tokens", "kept"),
    [
        ([3, 3, 3], [[11, 12, 13, 20], [31, 32, 40, -1], [9, -1, -1, -1]], [3, 2, 0]),
        ([2, 0, 1], [[11, 12, 13, -1], [31, -1, -1, -1], [9, -1, -1, -1]], [2, 0, 0]),
    ],
    ids=["whole", "cut"],
)
def test_greedy_chains_whole_and_cut(num_verified, tokens, kept, computes):
    drafts = [[11, 12, 13], [31, 32, 33], [51, 52, 53]]
    chosen = [[11, 12, 13, 20], [31, 32, 40, 41], [9, 52, 53, 54]]
    offsets = [sum(num_verified[:request]) for request in range(4)]
    arguments = {
        "draft_tokens": i64([token for row, count in zip(drafts, num_verified, strict=True) for token in row[:count]]),
        "cu_num_drafts": i32(offsets),
        "target_predict": i64(
            [token for row, count in zip(chosen, num_verified, strict=True) for token in row[: count + 1]]
        ),
        "max_num_drafts": 3,
    }
    computes("verify_chain_greedy", arguments, {"output_tokens": i32(tokens), "num_accepted_drafts": i32(kept)})
