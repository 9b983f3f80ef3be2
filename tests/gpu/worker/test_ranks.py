"""Ranks in processes of their own: data-parallel ranks in step, idle ones, and ones that disappear or fall silent."""

import numpy as np
import pytest
import torch

from specsim.config import SpecConfig
from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.rank_processes import run_ranks
from specsim.gpu.worker.ranks import torch_pad
from specsim.phases.padding import numpy_pad
from tests.gpu.worker.rank_play import Play

CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)
HOME = "tests.gpu.worker.rank_play"
NUM_GPUS = 0 if DEVICE.type != "cuda" else torch.cuda.device_count()


def played(play, backend="gloo", time_limit_s=300.0):
    return run_ranks(play, len(play.requests), backend, time_limit_s, preload=[HOME])


def check(play, ended, expected=None):
    """Every rank that is left output what it would alone, and all of them ran the same forwards."""
    left = {rank: one.returned for rank, one in enumerate(ended) if one.returned is not None}
    assert not [one.failure for one in ended if one.failure], ended
    believed = Play(play.config, play.requests, play.is_v1)
    for rank, (output, forwards, lost) in left.items():
        assert output == believed.alone(rank), rank
        assert forwards == next(iter(left.values()))[1], rank
        assert lost == (expected or [])
    return left


@pytest.mark.parametrize(
    "play",
    [
        Play(CHAIN, (2, 0)),
        pytest.param(Play(TREE, (3, 0, 1, 2), is_v1=True), marks=pytest.mark.slow),
        pytest.param(Play(TREE, (0, 0, 0, 4)), marks=pytest.mark.slow),
    ],
    ids=["two", "four on V1", "one of four"],
)
def test_ranks_in_processes_output_what_each_would_alone(play):
    left = check(play, played(play))
    assert left.keys() == set(range(len(play.requests)))
    assert left[0][1]["VERIFY"] == left[0][1]["DRAFT_EXTEND"] > 1


@pytest.mark.parametrize("gone", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_rank_that_disappears_is_named_and_the_others_go_on(gone):
    play = Play(CHAIN, (2, 1, 0), gone=gone)
    ended = played(play)
    left = check(play, ended, [f"rank {gone} = silent in rows summed, but should answer; the others go on without it"])
    assert left.keys() == {0, 1, 2} - {gone}
    assert ended[gone].has_disappeared


@pytest.mark.slow
def test_a_silent_rank_is_given_up_after_a_time_limit():
    play = Play(CHAIN, (2, 1, 2), silent=2, silent_s=20.0)
    ended = played(play, time_limit_s=4.0)
    late = ended[2]
    assert late.returned is None
    assert "rank 2 is late, but should be in time, because the others went on without it" in late.failure
    message = "rank 2 = silent in rows summed, but should answer; the others go on without it"
    left = check(play, [one for one in ended if one is not late], [message])
    assert left.keys() == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("play", [Play(CHAIN, (1, 0), is_on_device=True), Play(TREE, (0, 1), True, True)], ids=str)
def test_ranks_on_this_device_output_what_the_reference_does(play):
    check(play, played(play))


@pytest.mark.skipif(NUM_GPUS < 2, reason="NCCL needs a GPU a rank")
@pytest.mark.parametrize("requests", [(3, 2), (4, 0), (0, 1)], ids=str)
@pytest.mark.parametrize(("config", "is_v1"), [(CHAIN, False), (TREE, False), (TREE, True)], ids=str)
def test_ranks_with_a_gpu_each_output_what_the_reference_does(config, is_v1, requests):
    play = Play(config, requests, is_v1, is_on_device=True)
    left = check(play, played(play, "nccl"))
    assert left.keys() == {0, 1}


def test_tensors_are_padded_like_arrays():

    for values, axis, fill in (
        (np.arange(6).reshape(2, 3), 1, 7),
        (np.ones(3, dtype=bool), 0, False),
        (np.zeros((0, 2)), 0, 1),
    ):
        got, expected = torch_pad(torch.from_numpy(values), axis, 2, fill), numpy_pad(values, axis, 2, fill)
        assert got.numpy().dtype == expected.dtype
        assert (got.numpy() == expected).all()
