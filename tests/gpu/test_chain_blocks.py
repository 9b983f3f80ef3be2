import numpy as np
import pytest

from specsim.gpu.launching.blocks import INTERPRETED
from specsim.rejection import Reason
from tests.gpu.test_acceptance import ON_GPU, chains

BLOCK = "chain_block_verification"


def mixed(counts, vocab, seed=0):
    """Return chains whose targets have half of their draft's law, and tokens of it, so that shares lie around 1."""
    drawn, source = chains(counts, vocab, seed), np.random.default_rng(seed)
    request = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(len(request)) + request
    drawn["target_probs"][rows] = (drawn["target_probs"][rows] + drawn["draft_probs"]) / 2
    laws = drawn["draft_probs"]
    drawn["draft_tokens"] = np.array([source.choice(vocab, p=row / row.sum()) for row in laws], dtype=np.int64)
    drawn["uniform_samples"] = source.random(len(request), dtype=np.float32)
    return drawn


@pytest.mark.parametrize("counts", [[], [0], [3], [0, 4, 1, 0], [40, 2]], ids=str)
@pytest.mark.parametrize("vocab", [1, 2, 33, 999])
@pytest.mark.parametrize("has_law", [True, False])
def test_block(agrees, counts, vocab, has_law):
    for seed in range(1 if INTERPRETED else 3):
        for drawn in (chains(counts, vocab, seed), mixed(counts, vocab, seed)):
            drawn["draft_probs"] = drawn["draft_probs"] if has_law else None
            most = max(counts, default=0)
            agrees(BLOCK, **drawn, max_num_drafts=most)
            drawn["draft_tokens"][2:3] = -1
            agrees(BLOCK, **drawn, max_num_drafts=most + 2)


@pytest.mark.parametrize("chunks", [1, 3, 7])
def test_rows_are_split_over_programs(agrees, cut, chunks):
    cut(block=lambda size, most, interpreted: min(size, 8), chunks=lambda items, most, programs: chunks)
    for seed in range(4):
        agrees(BLOCK, **mixed([3, 0, 5, 1], 50, seed), max_num_drafts=6)


def test_masses_of_many_blocks_are_added_up_in_parts(agrees, cut, monkeypatch):
    monkeypatch.setattr("specsim.gpu.acceptance.MASSES", 32)
    cut(block=lambda size, most, interpreted: min(size, 4))
    agrees(BLOCK, **mixed([6, 3], 101), max_num_drafts=7)


def test_rows_that_no_block_reads_may_hold_anything(agrees):
    drawn = mixed([3, 2, 4], 9)
    drawn["draft_tokens"][[1, 5]] = -1
    drawn["draft_probs"][[1, 2, 5, 6, 7, 8]] = np.nan
    drawn["target_probs"][[2, 3, 8, 9]] = np.nan
    drawn["target_probs"][[10, 11]] = 0
    drawn["target_probs"][5] = np.arange(9) == (drawn["draft_tokens"][4] + 1) % 9
    drawn["target_probs"][6] = -7
    agrees(BLOCK, **drawn, max_num_drafts=4)


def test_views_are_read_where_they_lie(agrees):
    drawn = {name: np.repeat(value, 2, axis=-1)[..., ::2] for name, value in mixed([3, 1], 7).items()}
    agrees(BLOCK, **drawn, max_num_drafts=3)


def test_bad_calls_are_rejected(rejection):
    drawn = {**mixed([3, 1], 7), "max_num_drafts": 3}
    assert rejection(BLOCK, **{**drawn, "max_num_drafts": 2}) is Reason.COUNT_OUT_OF_RANGE
    drawn["target_probs"][1] = 0
    assert rejection(BLOCK, **drawn) is Reason.EMPTY_DISTRIBUTION


@ON_GPU
@pytest.mark.parametrize("vocab", [32_000, 152_064])
@pytest.mark.parametrize("has_law", [True, False])
def test_large_vocabularies(agrees, vocab, has_law):
    for seed in range(3):
        drawn = mixed([3, 0, 7] * 8, vocab, seed)
        drawn["draft_probs"] = drawn["draft_probs"] if has_law else None
        agrees(BLOCK, **drawn, max_num_drafts=7)
