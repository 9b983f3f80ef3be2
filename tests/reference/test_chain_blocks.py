"""Blocks by hand: laws of halves and quarters, so that shares and chances are known in words."""

import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.reference.margins import MARGINS
from specsim.reference.walks import Block

NEVER = 1 - 2.0**-24


@pytest.fixture
def block(f32, i32, i64):
    """Return the call of one chain of two drafts: p = (1/2, 1/2), (1, 0), (1/4, 3/4), q = (3/4, 1/4), (1/2, 1/2)."""
    return {
        "draft_tokens": i64([0, 0]),
        "cu_num_drafts": i32([0, 2]),
        "uniform_samples": f32([0.5, 0.5]),
        "uniform_samples_for_final_sampling": f32([0.5]),
        "draft_probs": f32([[0.75, 0.25], [0.5, 0.5]]),
        "target_probs": f32([[0.5, 0.5], [1, 0], [0.25, 0.75]]),
        "max_num_drafts": 2,
    }


def verified(call, **changes):
    output, counts = reference.chain_block_verification(**{**call, **changes})
    return output[:, : counts.max(initial=0) + 1].tolist()


def test_the_share_of_a_front_is_the_product_of_ratios_cut_at_1(block):
    for tokens, shares in ([0, 0], [1, 2 / 3, 1]), ([0, 1], [1, 2 / 3, 0]), ([1, 0], [1, 1, 1]), ([1, 1], [1, 1, 0]):
        assert Block.of(tokens, block["draft_probs"], block["target_probs"]).shares == pytest.approx(shares)


def test_an_inner_front_has_the_chance_of_what_it_leaves(block):
    found = Block.of([0, 1], block["draft_probs"], block["target_probs"])
    assert found.rest_after(1) == pytest.approx([1 / 6, 0])
    assert found.chance_of(1) == pytest.approx(1 / 3)


def test_a_coin_that_fails_ends_nothing(block, f32):
    coins = f32([NEVER, NEVER])
    assert verified(block, uniform_samples=coins) == [[0, 0, 1]]
    assert reference.chain_speculative_sampling(**{**block, "uniform_samples": coins})[1].tolist() == [0]


@pytest.mark.parametrize(("coin", "output"), [(0.333, [0, 0]), (0.334, [1])])
def test_of_an_inner_front_the_rest_is_drawn_from(block, coin, output, i64, f32):
    assert verified(block, draft_tokens=i64([0, 1]), uniform_samples=f32([coin, 0])) == [output]


def test_a_share_of_0_is_kept_at_no_coin(block, i64, f32):
    assert verified(block, draft_tokens=i64([0, 1]), uniform_samples=f32([0.5, 0])) == [[1]]


def test_a_whole_share_of_which_nothing_is_left_is_kept(block, i64, f32):
    laws = f32([[0.5, 0.5], [1, 0]])
    assert verified(block, draft_probs=laws, uniform_samples=f32([NEVER, NEVER])) == [[0, 0, 1]]


def test_a_draft_that_its_own_law_cannot_draw_has_no_share(block, f32):
    laws = f32([[0.75, 0.25], [0, 1]])
    assert verified(block, draft_probs=laws, uniform_samples=f32([0, 0])) == [[0, 0]]


def test_a_certain_draft_is_kept_with_its_own_probability(block, f32):
    for coin, output in (0.49, [0, 0, 1]), (0.5, [1]):
        assert verified(block, draft_probs=None, uniform_samples=f32([coin, coin])) == [output]


def test_blocks_are_ragged_and_end_at_a_sentinel(block, i32, i64, f32):
    call = {
        "draft_tokens": i64([0, 0, 0, -1, 0]),
        "cu_num_drafts": i32([0, 2, 2, 5]),
        "uniform_samples": f32([0.5, 0.5, 0.5, 0, 0]),
        "uniform_samples_for_final_sampling": f32([0.5, 0.25, 0.5]),
        "draft_probs": f32([[0.75, 0.25], [0.5, 0.5], [0.75, 0.25], [np.nan] * 2, [np.nan] * 2]),
        "target_probs": f32([[0.5, 0.5], [1, 0], [0.25, 0.75], [0.5, 0.5], [0.5, 0.5], [1, 0], [np.nan] * 2, [0] * 2]),
        "max_num_drafts": 3,
    }
    output, counts = reference.chain_block_verification(**call)
    assert output.tolist() == [[0, 0, 1, -1], [0, -1, -1, -1], [0, 0, -1, -1]] and counts.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("name", "row", "value", "reason"),
    [
        ("target_probs", 1, 0.0, Reason.EMPTY_DISTRIBUTION),
        ("target_probs", 2, 0.0, Reason.EMPTY_DISTRIBUTION),
        ("target_probs", 1, np.nan, Reason.NAN_SCORE),
        ("draft_probs", 1, np.nan, Reason.NAN_SCORE),
        ("uniform_samples", 1, 1.0, Reason.COIN_OUT_OF_RANGE),
        ("cu_num_drafts", 1, 1, Reason.INCONSISTENT_LENGTHS),
        ("draft_tokens", 0, 2, Reason.TOKEN_OUT_OF_RANGE),
    ],
)
def test_what_is_read_is_checked(name, row, value, reason, block):
    block[name][row] = value
    with pytest.raises(SpecRejection) as caught:
        reference.chain_block_verification(**block)
    assert caught.value.reason is reason


def test_the_row_after_the_drafts_is_read_where_all_are_kept(block, i64, f32):
    block["target_probs"][2] = 0
    assert verified(block, draft_tokens=i64([0, 1]), uniform_samples=f32([0, 0])) == [[0, 0]]


def test_margins_ask_for_decisive_coins_alone(block, i64, f32):
    margin_of = MARGINS["chain_block_verification"]
    inner = {**block, "draft_tokens": i64([0, 1])}
    assert margin_of({**inner, "uniform_samples": f32([1 / 3, 0.5])})[0] < 1
    assert margin_of({**inner, "uniform_samples": f32([0.25, 0.5])})[0] > 1e3
    certain = {**block, "draft_tokens": i64([1, 0]), "uniform_samples": f32([1 / 3, NEVER])}
    assert margin_of(certain)[0] > 1e3
    half = f32([0.25])
    assert margin_of({**certain, "uniform_samples_for_final_sampling": half})[0] < 1


def test_drafts_that_are_sure_are_kept_by_the_product_of_their_probabilities(block, f32):
    sure = {**block, "draft_probs": None, "target_probs": f32([[0.5, 0.5], [0.5, 0.5], [0, 1]])}
    found = Block.of([0, 0], None, sure["target_probs"])
    assert (found.shares, found.chance_of(1), found.chance_of(2)) == ([1, 1 / 2, 1 / 4], pytest.approx(1 / 3), 1 / 4)
    expected = {(0.3, 0.25): [0, 1], (0.4, 0.25): [1], (0.9, 0.2): [0, 0, 1]}
    for coins, tokens in expected.items():
        assert verified(sure, uniform_samples=f32(coins)) == [tokens]
