"""Q.8.2 by hand: a round of four requests on two stages, and zeros in the places of drafts that are not there."""

import numpy as np
import pytest

from specsim.host.stages import LaunchedRow, PipelineStage, Relay, RelayedRow, RequestKey, StageState

A, B, C, D = RequestKey(0, 0, 1), RequestKey(1, 1, 1), RequestKey(2, 2, 1), RequestKey(3, 3, 1)
NEXT_OF_C = RequestKey(4, 2, 2)
CHAIN = (-1, 0, 1, 2)
NOTHING = StageState(0, -1, (), (-1,), 0)


def relayed(request, num_committed, num_computed, seq_len, tokens, parents=CHAIN):
    return RelayedRow(request, num_committed, num_computed - num_committed, seq_len, tokens, parents)


@pytest.fixture(params=[0, 1], ids=["first", "last"])
def stage(request):
    """A stage on which A, B and C have 5, 8 and 6 committed tokens, and drafts."""
    stage = PipelineStage(request.param, 2)
    lengths = {A: 5, B: 8, C: 6}
    for one in lengths:
        stage.join(one)
    stage.launch([LaunchedRow(one, length) for one, length in lengths.items()])
    fresh = (7, -1, -1, -1)
    stage.apply(Relay(0, tuple(relayed(one, length, length, length, fresh) for one, length in lengths.items())))
    assert [stage.state(one) for one in lengths] == [StageState(length, 7, (-1,) * 3, CHAIN, 0) for length in (5, 8, 6)]
    return stage


def test_a_round_of_four_requests(stage):
    stage.launch([LaunchedRow(C, 4), LaunchedRow(A, 4), LaunchedRow(B, 4)])
    assert [(stage.state(one).seq_len, stage.state(one).num_placeholders) for one in (A, B, C)] == [
        (9, 4),
        (12, 4),
        (10, 4),
    ]
    assert not any(stage.is_ready(one) for one in (A, B, C))
    stage.leave(C)
    stage.join(NEXT_OF_C)
    stage.join(D)
    rows = (relayed(C, 3, 4, 9, (1, 2, 3, 4)), relayed(A, 2, 4, 7, (5, 6, 7, 8)), relayed(B, 4, 4, 12, (9, 9, 8, 8)))
    stage.apply(Relay(1, rows))
    assert stage.state(A) == StageState(7, 5, (6, 7, 8), CHAIN, 0)
    assert stage.state(B) == StageState(12, 9, (9, 8, 8), CHAIN, 0)
    assert stage.state(NEXT_OF_C) == stage.state(D) == NOTHING
    assert all(stage.is_ready(one) for one in (A, B, NEXT_OF_C, D))


def test_a_record_without_drafts_is_one_wide(stage):
    stage.launch([LaunchedRow(A, 4)])
    stage.apply(Relay(1, (relayed(A, 1, 4, 6, (3,), (-1,)),)))
    assert stage.state(A) == StageState(6, 3, (), (-1,), 0)


def test_zeros_in_the_places_of_drafts_are_candidates(operations):
    """A zero that no drafter proposed is accepted where the target chooses 0: the token is the target's own."""
    arguments = {
        "draft_tokens": np.array([0, 0]),
        "cu_num_drafts": np.array([0, 2], dtype=np.int32),
        "target_predict": np.array([0, 2, 1]),
        "max_num_drafts": 2,
    }
    assert operations.call("verify_chain_greedy", **arguments)[0].tolist() == [[0, 2, -1]]


@pytest.mark.parametrize(
    ("proposal", "num_zeros"), [((0.25, 0.75), 256), ((1.0, 0.0), 128)], ids=["of other drafts", "one-hot"]
)
def test_zeros_keep_the_law_of_a_chain_only_if_their_proposal_is_one_hot(proposal, num_zeros, operations):
    """The target has 1/2 and 1/2; coins in the middle of 16 equal parts, all pairs of them, make its law exact."""
    coins = np.array([((coin + 0.5) / 16, (final + 0.5) / 16) for coin, final in np.ndindex(16, 16)], dtype=np.float32)
    arguments = {
        "draft_tokens": np.zeros(256, dtype=np.int64),
        "cu_num_drafts": np.arange(257, dtype=np.int32),
        "uniform_samples": coins[:, 0].copy(),
        "uniform_samples_for_final_sampling": coins[:, 1].copy(),
        "draft_probs": np.tile(np.array(proposal, dtype=np.float32), (256, 1)),
        "target_probs": np.full((512, 2), 0.5, dtype=np.float32),
        "max_num_drafts": 1,
    }
    first = operations.call("chain_speculative_sampling", **arguments)[0][:, 0]
    assert np.count_nonzero(first == 0) == num_zeros
