"""Blocks from logits by hand: what differs from blocks of probabilities."""

import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference
from specsim.contracts.chains import block_draft_logits_read, block_target_logits_read
from specsim.reference.margins import MARGINS

BLOCK = "chain_block_verification_from_logits"
NEVER = 1 - 2.0**-24
INF, NAN = float("inf"), float("nan")


def logs(*rows):
    with np.errstate(divide="ignore"):
        return np.log(np.array(rows, dtype=np.float64)).astype(np.float32)


@pytest.fixture
def block(f32, i32, i64):
    """Return the call of two drafts whose first has the share 1/2, and leaves the more of token 0 the larger that is.

    p = (1/4, 3/4), then (1/2, 1/4, 1/8, 1/8), and q = (1/2, 1/2), then (1/8, 1/8, 1/4, 1/2).
    """
    return {
        "draft_tokens": i64([0, 3]),
        "cu_num_drafts": i32([0, 2]),
        "uniform_samples": f32([0, NEVER]),
        "uniform_samples_for_final_sampling": f32([0.9]),
        "draft_logits": logs([1, 1, 0, 0], [1, 1, 2, 4]),
        "target_logits": logs([1, 3, 0, 0], [4, 2, 1, 1], [1, 1, 1, 1]),
        "temperature": f32([1]),
        "top_k": None,
        "top_p": None,
        "min_p": None,
        "draft_temperature": f32([1]),
        "max_num_drafts": 2,
    }


def verified(call, **changes):
    output, counts = reference.chain_block_verification_from_logits(**{**call, **changes})
    return output[:, : counts.max(initial=0) + 1].tolist()


def test_the_token_after_a_front_is_drawn_from_what_its_share_leaves(block, f32):
    """What half of the target's row leaves is (1/8, 0, 0, 0); the whole row would leave (3/8, 1/8, 0, 0)."""
    assert verified(block) == [[0, 0]]
    assert verified(block, draft_temperature=f32([1]), draft_logits=logs([1, 3, 0, 0], [1, 1, 2, 4])) == [[0, 1]]


def test_an_inner_front_has_the_chance_of_what_it_leaves(block, f32):
    """s = 1/8 and r = 1/2, so that h = 1/5."""
    for coin, output in (0.199, [0, 0]), (0.201, [1]):
        assert verified(block, uniform_samples=f32([coin, NEVER])) == [output]


def test_each_side_has_its_own_temperature_and_only_the_target_filters(block, f32, i32):
    warm = {
        "target_logits": block["target_logits"] * np.float32(0.5),
        "temperature": f32([0.5]),
        "draft_logits": block["draft_logits"] * np.float32(2),
        "draft_temperature": f32([2]),
    }
    for coin, output in (0.199, [0, 0]), (0.201, [1]):
        assert verified(block, **warm, uniform_samples=f32([coin, NEVER])) == [output]
    assert verified(block, top_k=i32([1])) == [[1]]


def test_rows_whose_probabilities_underflow_have_shares(block, f32, i64):
    """Both sides give the drafts e^-1000, so that the share stays 1."""
    far = f32([[-1000, 0], [-1000, 0], [0, -INF]])
    equal = {"draft_logits": far[:2], "target_logits": far, "draft_tokens": i64([0, 0])}
    assert verified(block, **equal, uniform_samples=f32([NEVER, 0.99])) == [[0, 0, 0]]


def test_certain_drafts_are_kept_by_the_product_of_their_probabilities(block, f32, i64):
    certain = {**block, "draft_tokens": i64([0, 0])}
    for changes in {"draft_logits": None}, {"draft_temperature": f32([0])}:
        for coin, output in (0.124, [0, 0, 3]), (0.126, [1]):
            assert verified(certain, **changes, uniform_samples=f32([NEVER, coin])) == [output]


def test_greedy_blocks_follow_the_largest_logit(block, f32, i64):
    cold = {"temperature": f32([0]), "draft_logits": np.full((2, 4), NAN, dtype=np.float32)}
    assert verified(block, **cold, draft_tokens=i64([1, 0])) == [[1, 0, 0]]
    assert verified(block, **cold, draft_tokens=i64([1, 3])) == [[1, 0]]


def test_a_draft_that_neither_side_can_choose_leaves_a_possible_token(block, f32, i64):
    rows = logs([1, 1, 0, 0], [1, 1, 2, 4])
    target = np.concatenate([rows, rows[:1]])
    same = {"draft_logits": rows, "target_logits": target, "draft_tokens": i64([3, 3])}
    assert verified(block, **same, uniform_samples=f32([0, 0])) == [[1]]


def test_a_block_reads_the_rows_of_its_drafts(block, i32, i64, f32):
    ragged = {
        **block,
        "draft_tokens": i64([0, 3, 0, -1, 2, 1, 3]),
        "cu_num_drafts": i32([0, 2, 5, 7]),
        "uniform_samples": f32([0, NEVER, 0, 0, 0, 0, 0]),
        "draft_logits": np.zeros((7, 4), dtype=np.float32),
        "target_logits": logs(*[[1, 1, 1, 1]] * 2, [0, 0, 0, 0], *[[1, 1, 1, 1]] * 4, *[[2, 1, 1, 1]] * 3),
        **{name: f32([1, 1, 0]) for name in ("temperature", "draft_temperature")},
    }
    assert block_target_logits_read(ragged).tolist() == [True, True, True, True, True, *[False] * 2, True, *[False] * 2]
    assert block_draft_logits_read(ragged).tolist() == [True, True, True, *[False] * 4]
    ragged["uniform_samples"][1] = 1
    assert block_target_logits_read(ragged).tolist()[:3] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "row", "value", "reason"),
    [
        ("target_logits", 1, -INF, Reason.EMPTY_DISTRIBUTION),
        ("target_logits", 0, INF, Reason.INFINITE_LOGIT),
        ("target_logits", 1, NAN, Reason.NAN_SCORE),
        ("draft_logits", 1, -INF, Reason.EMPTY_DISTRIBUTION),
        ("draft_logits", 1, NAN, Reason.NAN_SCORE),
        ("uniform_samples", 1, 1.0, Reason.COIN_OUT_OF_RANGE),
        ("cu_num_drafts", 1, 1, Reason.INCONSISTENT_LENGTHS),
        ("draft_tokens", 0, 4, Reason.TOKEN_OUT_OF_RANGE),
        ("temperature", 0, 1e-9, Reason.TEMPERATURE_OUT_OF_RANGE),
    ],
)
def test_what_is_read_is_checked(name, row, value, reason, block):
    block[name][row] = value
    with pytest.raises(SpecRejection) as caught:
        reference.chain_block_verification_from_logits(**block)
    assert caught.value.reason is reason


def test_the_row_after_the_drafts_is_read_where_all_are_kept(block, f32, i64):
    block["target_logits"][2] = -INF
    assert verified(block) == [[0, 0]]
    with pytest.raises(SpecRejection) as caught:
        verified(block, draft_tokens=i64([1, 0]))
    assert caught.value.reason is Reason.EMPTY_DISTRIBUTION


def test_margins_ask_for_decisive_coins_alone(block, f32, i64):
    margin_of = MARGINS[BLOCK]
    assert margin_of(block)[0] > 1e3
    assert margin_of({**block, "uniform_samples": f32([0.2, NEVER])})[0] < 1
    assert margin_of({**block, "uniform_samples": f32([0.21, NEVER])})[0] > 100
    whole = {**block, "draft_tokens": i64([1, 0]), "uniform_samples": f32([0, 0.5])}
    assert margin_of(whole)[0] > 1e3
    assert margin_of({**whole, "uniform_samples_for_final_sampling": f32([0.25])})[0] < 1
    assert margin_of({**whole, "temperature": f32([0])})[0] == INF
    equal = {
        **block,
        "target_logits": logs([1, 1, 0, 0], [1, 1, 2, 4], [1, 1, 1, 1]),
        "uniform_samples": f32([0, NEVER]),
    }
    assert margin_of(equal)[0] < 1
