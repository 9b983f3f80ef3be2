"""Ranks in processes of their own: data-parallel ranks in step, idle ones, and ones that disappear or fall silent."""

import numpy as np
import pytest
import torch

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.rank_processes import run_ranks
from specsim.gpu.worker.ranks import torch_pad
from specsim.phases.padding import numpy_pad
from specsim.properties.runs.ranks.padded_runs import forwards_of_an_iteration
from specsim.simulation.models.pool_kinds import PoolKind
from tests.gpu.worker.rank_play import CHAIN, TREE, Case, Play, ReplicatedPlay, every_worker

HOME = "tests.gpu.worker.rank_play"
NUM_GPUS = 0 if DEVICE.type != "cuda" else torch.cuda.device_count()
EAGLE = (Case("eagle_v2", CHAIN, (2, 1, 0)),)


def played(play, backend="gloo", time_limit_s=300.0):
    return run_ranks(play, len(play.cases[0].requests), backend, time_limit_s, preload=[HOME])


def check(play, ended, expected=None):
    """Every rank that is left output what it would alone, and all of them ran the same forwards, case by case."""
    assert not [one.failure for one in ended if one.failure], ended
    left = {rank: one.returned for rank, one in enumerate(ended) if one.returned is not None}
    first = next(iter(left.values()))
    for rank, (outcomes, lost) in left.items():
        assert lost == (expected or [])
        for case, (reported, forwards), (_, of_first) in zip(play.cases, outcomes, first[0], strict=True):
            assert reported == case.alone(rank), (case, rank)
            assert forwards == of_first, (case, rank)
    return left


def forwards_of(left):
    """Return how many forwards of each kind the ranks ran, case by case."""
    return [forwards for _, forwards in next(iter(left.values()))[0]]


def test_ranks_in_processes_output_what_each_would_alone():
    play = Play(every_worker((2, 0), (1, 2), attn_tp_size=2))
    left = check(play, played(play))
    assert left.keys() == {0, 1}
    for case, forwards in zip(play.cases, forwards_of(left), strict=True):
        of_an_iteration = forwards_of_an_iteration(case.run)
        num_verifies = forwards["VERIFY"]
        assert num_verifies > 1
        for kind, count in of_an_iteration.items():
            assert forwards[kind.name] == count * num_verifies, (case, kind)


@pytest.mark.slow
def test_four_ranks_output_what_each_would_alone():
    swa = Case("eagle_v1", TREE, (1, 0, 2, 1), PoolKind.SWA)
    recurrent = Case("eagle_v2", CHAIN, (1, 0, 2, 1), PoolKind.HYBRID)
    play = Play((*every_worker((3, 0, 1, 2), (0, 0, 0, 4)), swa, recurrent))
    assert check(play, played(play)).keys() == set(range(4))


@pytest.mark.parametrize("gone", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_rank_that_disappears_is_named_and_the_others_go_on(gone):
    play = Play(EAGLE, gone=gone)
    ended = played(play)
    left = check(play, ended, [f"rank {gone} = silent in rows summed, but should answer; the others go on without it"])
    assert left.keys() == {0, 1, 2} - {gone}
    assert ended[gone].has_disappeared


@pytest.mark.slow
def test_a_silent_rank_is_given_up_after_a_time_limit():
    play = Play((Case("eagle_v2", CHAIN, (2, 1, 2)),), silent=2, silent_s=8.0)
    ended = played(play, time_limit_s=2.0)
    late = ended[2]
    assert late.returned is None
    assert "rank 2 is late, but should be in time, because the others went on without it" in late.failure
    message = "rank 2 = silent in rows summed, but should answer; the others go on without it"
    left = check(play, [one for one in ended if one is not late], [message])
    assert left.keys() == {0, 1}


@pytest.mark.slow
def test_ranks_on_this_device_output_what_the_reference_does():
    play = Play(every_worker((1, 0), (0, 1)), is_on_device=True)
    check(play, played(play))


@pytest.mark.skipif(NUM_GPUS < 2, reason="NCCL needs a GPU a rank")
def test_ranks_with_a_gpu_each_output_what_the_reference_does():
    swa = Case("eagle_v1", TREE, (3, 2), PoolKind.SWA)
    recurrent = Case("eagle_v2", CHAIN, (2, 0), PoolKind.HYBRID)
    play = Play((*every_worker((3, 2), (4, 0), (0, 1)), swa, recurrent), is_on_device=True)
    left = check(play, played(play, "nccl"))
    assert left.keys() == {0, 1}


def test_ranks_of_one_batch_commit_the_same():
    check_replicated_model(ReplicatedPlay((Case("eagle_v2", TREE, (2, 2)),)))


def test_last_bits_of_a_rank_change_no_output():
    check_replicated_model(ReplicatedPlay((Case("eagle_v2", TREE, (2, 2)),), has_last_bits=True))


@pytest.mark.slow
def test_last_bits_of_a_rank_change_no_output_of_any_worker():
    check_replicated_model(ReplicatedPlay(every_worker((2, 2)), has_last_bits=True))
    check_replicated_model(ReplicatedPlay((Case("eagle_v2", CHAIN, (1, 1)),), is_on_device=True, has_last_bits=True))


@pytest.mark.slow
def test_ranks_of_one_batch_commit_the_same_with_every_worker():
    check_replicated_model(ReplicatedPlay(every_worker((2, 2))))
    check_replicated_model(ReplicatedPlay((Case("eagle_v2", CHAIN, (1, 1)),), is_on_device=True))


@pytest.mark.skipif(NUM_GPUS < 2, reason="NCCL needs a GPU a rank")
def test_ranks_of_one_batch_with_a_gpu_each_commit_the_same():
    for has_last_bits in (False, True):
        play = ReplicatedPlay(every_worker((2, 2)), is_on_device=True, has_last_bits=has_last_bits)
        check_replicated_model(play, "nccl")


def check_replicated_model(play, backend="gloo"):
    for one in run_ranks(play, 2, backend, 60.0, preload=[HOME]):
        assert one.failure is None
        for case, reported in zip(play.cases, one.returned, strict=True):
            assert reported == play.alone(case), case


def test_tensors_are_padded_like_arrays():

    for values, axis, fill in (
        (np.arange(6).reshape(2, 3), 1, 7),
        (np.ones(3, dtype=bool), 0, False),
        (np.zeros((0, 2)), 0, 1),
    ):
        got, expected = torch_pad(torch.from_numpy(values), axis, 2, fill), numpy_pad(values, axis, 2, fill)
        assert got.numpy().dtype == expected.dtype
        assert (got.numpy() == expected).all()
