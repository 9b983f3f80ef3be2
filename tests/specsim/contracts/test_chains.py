import numpy as np
import pytest

from specsim import Reason, SpecRejection, load
from specsim.contracts.chains import (
    block_draft_rows_read,
    block_target_rows_read,
    draft_rows_read,
    target_rows_read,
)

THIRDS = [[0.25, 0.25, 0.5]] * 9


def chains(**changes):
    """Three requests of three, none and two drafts: the first is rejected at its second, the last is accepted."""
    call = {
        "draft_tokens": np.array([0, 0, 0, 2, 2]),
        "cu_num_drafts": np.array([0, 3, 3, 5], dtype=np.int32),
        "uniform_samples": np.array([0.25, 0.75, 0, 0, 0], dtype=np.float32),
        "uniform_samples_for_final_sampling": np.zeros(3, dtype=np.float32),
        "draft_probs": np.array([[0.5, 0.5, 0]] * 3 + [[0, 0, 1]] * 2, dtype=np.float32),
        "target_probs": np.array(THIRDS[:8], dtype=np.float32),
        "max_num_drafts": 3,
    }
    return {**call, **changes}


def test_rows_are_read_up_to_the_one_that_the_last_token_is_drawn_from():
    assert draft_rows_read(chains()).tolist() == [True, True, False, True, True]
    assert target_rows_read(chains()).tolist() == [True, True, False, False, True, True, True, True]


def test_a_sentinel_ends_what_is_read():
    ended = chains(draft_tokens=np.array([-1, 0, 0, 2, -1]))
    assert draft_rows_read(ended).tolist() == [False, False, False, True, False]
    assert target_rows_read(ended).tolist() == [True, False, False, False, True, True, True, False]


def test_certain_drafts_are_judged_by_the_target_alone():
    certain = chains(draft_probs=None, uniform_samples=np.array([0.125, 0.25, 0, 0, 0], dtype=np.float32))
    assert target_rows_read(certain).tolist() == [True, True, False, False, True, True, True, True]


def test_nothing_is_read_beyond_offsets_and_tokens_that_are_none():
    broken = chains(cu_num_drafts=np.array([-4, 9, 2, 5], dtype=np.int32), draft_tokens=np.array([0, 7, 0, 2, 2]))
    assert target_rows_read(broken).shape == (8,)


@pytest.mark.parametrize("garbage", [0.0, np.nan, -3.0])
def test_rows_that_are_not_read_may_hold_anything(garbage):
    call = chains()
    before = load("specsim.reference").run("chain_speculative_sampling", call).outputs
    for name, rows_read in (("draft_probs", draft_rows_read), ("target_probs", target_rows_read)):
        call[name] = np.where(rows_read(call)[:, None], call[name], np.float32(garbage))
    after = load("specsim.reference").run("chain_speculative_sampling", call).outputs
    assert {name: values.tolist() for name, values in after.items()} == {
        name: values.tolist() for name, values in before.items()
    }


@pytest.mark.parametrize(
    ("name", "row", "value", "reason"),
    [
        ("target_probs", 1, 0.0, Reason.EMPTY_DISTRIBUTION),
        ("target_probs", 4, 0.0, Reason.EMPTY_DISTRIBUTION),
        ("target_probs", 7, np.nan, Reason.NAN_SCORE),
        ("target_probs", 1, 1.5, Reason.PROBABILITY_OUT_OF_RANGE),
        ("draft_probs", 1, np.nan, Reason.NAN_SCORE),
        ("draft_probs", 4, -1.0, Reason.PROBABILITY_OUT_OF_RANGE),
    ],
)
def test_rows_that_are_read_are_distributions(name, row, value, reason):
    call = chains()
    call[name][row] = value
    with pytest.raises(SpecRejection) as caught:
        load("specsim.reference").functions["chain_speculative_sampling"](**call)
    assert caught.value.reason is reason


def test_a_block_reads_the_rows_of_all_drafts_and_one_more_where_it_keeps_them():
    assert block_draft_rows_read(chains()).tolist() == [True] * 5
    assert block_target_rows_read(chains()).tolist() == [True, True, True, True, True, True, True, True]
    failing = chains(uniform_samples=np.array([0, 0, 0.25, 0, 0.5], dtype=np.float32))
    assert block_target_rows_read(failing).tolist() == [True, True, True, False, True, True, True, False]


def test_a_sentinel_ends_what_a_block_reads():
    ended = chains(draft_tokens=np.array([-1, 0, 0, 2, -1]))
    assert block_draft_rows_read(ended).tolist() == [False, False, False, True, False]
    assert block_target_rows_read(ended).tolist() == [True, False, False, False, True, True, True, False]


def test_a_block_reads_nothing_beyond_offsets_and_tokens_that_are_none():
    broken = chains(cu_num_drafts=np.array([-4, 9, 2, 5], dtype=np.int32), draft_tokens=np.array([0, 7, 0, 2, 2]))
    assert block_target_rows_read(broken).shape == (8,)
