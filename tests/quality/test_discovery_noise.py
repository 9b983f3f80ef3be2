"""What the strategies of sampled verify and of keyed noise must find, and how often."""

from itertools import pairwise

import numpy as np
import pytest

from specsim.properties.host.noise.strategy import blocks, keyed_scenes, lagged_scenes, pairs
from specsim.properties.operations.sampled_verify.strategy import sample_target_predict, toy_runs
from specsim.reference import sample_target_predict as draw
from tests.quality.pool import Pool, drawn

CALLS = Pool(sample_target_predict(), 100)
RUNS = Pool(toy_runs(), 100)
SHARE = 100
"""Cases of which a share is counted."""


def accepted(run):
    """Return how many drafts of a run equal the draws after their parents, from the root on."""
    node = count = 0
    while True:
        logits = run.logits_after(run.path_to(node))
        position = np.array([[run.position + count]])
        token = int(draw(logits=logits, **run.parameters(), positions=position)[0, 0])
        below = [child for child in run.topology.children[node] if run.tokens[child] == token]
        if not below:
            return count
        node, count = below[0], count + 1


@pytest.mark.parametrize(
    ("what", "predicate"),
    [
        ("a token after a prompt", lambda case: case["positions"].shape[1] == 1 < len(case["seeds"])),
        ("a seed of two words", lambda case: (case["seeds"] >= 2**32).any() and len(case["seeds"]) > 1),
        ("a position whose successor is the last", lambda case: (case["positions"] == 2**32 - 2).any()),
        ("nodes of one position", lambda case: any(len(set(one)) < len(one) for one in case["positions"].tolist())),
        ("a greedy request beside others", lambda case: 0 < (case["temperature"] == 0).sum() < len(case["seeds"])),
        ("forbidden tokens", lambda case: np.isneginf(case["logits"].astype(np.float32)).any()),
    ],
)
def test_calls_are_found(what, predicate):
    assert CALLS.first(predicate), what


def test_runs_accept_no_draft_some_and_all():
    assert RUNS.first(lambda run: run.num_steps and not accepted(run))
    assert RUNS.first(lambda run: 1 < accepted(run) == run.num_steps)
    assert RUNS.first(lambda run: 0 < accepted(run) < run.num_steps)
    assert RUNS.first(lambda run: run.filters.temperature == 0)


@pytest.mark.parametrize("strategy", [keyed_scenes, blocks, lagged_scenes])
def test_a_third_of_all_scenes_leaves_a_first_rejection_several_tokens(strategy):
    cases = drawn(strategy(), SHARE)

    def is_open(scene):
        target, proposal = scene.target[()], scene.proposal[()]
        return sum(p > q for p, q in zip(target, proposal, strict=True)) > 1

    assert sum(map(is_open, cases)) > SHARE / 3
    assert SHARE / 4 < sum(scene.by_coin for scene in cases) < 3 * SHARE / 4
    assert all(scene.horizon > 1 for scene in cases), "one iteration alone would not show what the next one reads"
    assert all(0 not in row for scene in cases for row in scene.proposal.values())


def test_lagged_scenes_and_no_others_choose_lengths():
    assert {scene.lengths is None for scene in drawn(blocks(), 20)} == {True}
    for scene in drawn(lagged_scenes(), 20):
        assert set(scene.lengths) == {0, 1}


def test_half_of_all_pairs_have_seeds_that_differ_by_a_bit():
    cases = drawn(pairs(), SHARE)
    assert all(one.seed != other.seed and one.target == other.target for one, other in cases)
    assert sum((one.seed ^ other.seed).bit_count() == 1 for one, other in cases) > SHARE / 2
    assert sum(one.seed ^ other.seed == 1 for one, other in cases) > SHARE / 8
    assert any(left != right for left, right in pairwise(one.position for one, _ in cases))
