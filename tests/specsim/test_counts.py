import numpy as np
import pytest

from specsim.contracts.axes import evaluate
from specsim.counts import (
    count_candidates,
    count_draft_nodes,
    count_drafts,
    count_nodes,
    count_tokens,
    decode_allocation,
    decode_reserve,
    path_width,
)
from specsim.operations.shared import ACCEPT_INDEX, NUM_CANDIDATES


def test_tokens_are_drafts_and_the_bonus_token():
    assert count_tokens(3) == 4


def test_tokens_of_several_verifies_are_drafts_and_one_bonus_each():
    assert count_tokens(12, 8) == 20
    assert count_drafts(20, 8) == 12
    assert count_drafts(count_tokens(3)) == 3
    assert count_tokens(0, 0) == 0


def test_nodes_are_drafts_and_the_root():
    assert (count_nodes(5), count_draft_nodes(6)) == (6, 5)


def test_the_count_of_drafts_is_left_as_it_is():
    drafts = np.array([0, 3], dtype=np.int32)
    tokens = count_tokens(drafts)
    assert drafts.tolist() == [0, 3]
    assert (tokens.tolist(), tokens.dtype) == ([1, 4], np.int32)


def test_candidates_of_all_levels():
    assert [count_candidates(topk, steps) for topk, steps in ((1, 4), (2, 3), (4, 1))] == [4, 10, 4]


def test_a_path_holds_the_root():
    assert path_width(3) == 4


def test_reserve_is_two_iterations():
    assert decode_allocation(2, 3, 6) == 6
    assert decode_allocation(4, 5, 16) == 20
    assert decode_reserve(2, 3, 6) == 12


@pytest.mark.parametrize(("topk", "num_steps"), [(1, 1), (1, 4), (2, 3), (4, 1), (32, 16)])
def test_contracts_state_the_same_sizes(topk, num_steps):
    """The axes of the contracts are a notation of their own: `draft+1` is the width of a path."""
    axes = {"draft": num_steps, "topk": topk, "step": num_steps}
    assert evaluate(ACCEPT_INDEX.axes[1], axes) == path_width(num_steps)
    assert evaluate(NUM_CANDIDATES, axes) == count_candidates(topk, num_steps)
