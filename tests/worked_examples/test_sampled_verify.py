"""Sampled verify, number by number: what it emits, what it accepts, and what its neighbours emit."""

from fractions import Fraction

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.host.noise import arrivals, stream_key
from specsim.properties.distribution import EVERYTHING, NOTHING
from specsim.properties.host.noise.keyed_walks import residual_of
from specsim.properties.host.noise.races import same_winner
from specsim.properties.laws.sampling_cells import slack_of
from specsim.properties.operations.acceptance.laws_exact_trees import law_of_tree
from specsim.properties.operations.sampled_verify.faults import MUTANTS
from specsim.properties.operations.sampled_verify.laws import law_over_draws
from specsim.properties.strategies.sampling_scenes import TreeScene
from specsim.topology import Topology
from tests.worked_examples.numbers import f32, i32, i64

P, Q = (tuple(Fraction(share, 10) for share in shares) for shares in ((5, 3, 2), (6, 3, 1)))
CHAIN, FORK = Topology.from_parents((-1, 0)), Topology.from_parents((-1, 0, 0))
PLANTED = {mutant.id: mutant.plant(load("specsim.reference")) for mutant in MUTANTS}
"""The reference with the faults of neighbouring rules."""


def scene(*drafts):
    """Return a chain of one draft, or a fork of two, whose rows are all the same."""
    topology = CHAIN if len(drafts) == 1 else FORK
    return TreeScene(topology, (0, *drafts), (P,) * len(topology), 1)


def first_token(law):
    return [sum((share for output, share in law.items() if output[0] == token), NOTHING) for token in range(3)]


def accepted(law):
    return sum((share for output, share in law.items() if len(output) > 1), NOTHING)


def over_drafts(operations):
    """Return the law of the first token of a chain, and how often its draft is accepted, over the draft's own draws."""
    laws = [law_over_draws(operations, scene(draft)) for draft in range(3)]
    tokens = [[chance * share for share in first_token(law)] for chance, law in zip(Q, laws, strict=True)]
    return [sum(column) for column in zip(*tokens, strict=True)], sum(
        chance * accepted(law) for chance, law in zip(Q, laws, strict=True)
    )


def test_the_law_is_the_targets_and_acceptance_the_chance_of_equal_draws(operations):
    law, chance = over_drafts(operations)
    assert law == [*P]
    assert chance == Fraction(41, 100)


def test_other_drafts_are_accepted_more_often(operations):
    assert accepted(law_over_draws(operations, scene(0))) == Fraction(1, 2), "the likeliest token"
    assert accepted(law_over_draws(operations, scene(0, 1))) == Fraction(8, 10), "two children of one node"
    assert accepted(law_over_draws(operations, scene(0, 0))) == Fraction(1, 2), "equal siblings count once"
    assert same_winner(P, Q) == Fraction(48, 55), "draft and target on one noise"
    assert sum(map(min, P, Q)) == Fraction(9, 10), "rejection"


@pytest.mark.parametrize("drafts", [(0,), (2,), (0, 1), (1, 1)])
def test_coins_at_thresholds_1_give_path_and_bonus_the_same_law(operations, drafts):
    eighths = tuple(Fraction(share, 8) for share in (4, 3, 1))
    tree = TreeScene(scene(*drafts).topology, (0, *drafts), (eighths,) * (len(drafts) + 1), 1)
    assert law_over_draws(operations, tree) == law_of_tree(operations, tree, slack_of(3))


E = ((0.9, 0.2, 0.7), (0.3, 1.1, 0.6), (0.5, 0.4, 2.0))
TARGET = {(): (0.5, 0.3, 0.2), (0,): (0.2, 0.5, 0.3), (1,): (0.6, 0.2, 0.2), (2,): (0.3, 0.3, 0.4)}


def draw_after(prefix):
    return int(np.argmin(np.array(E[len(prefix)]) / np.array(TARGET.get(prefix, (0.3, 0.4, 0.3)))))


def test_plain_decoding_on_given_arrivals():
    tokens = ()
    for _ in range(3):
        tokens = (*tokens, draw_after(tokens))
    assert tokens == (1, 0, 1)


@pytest.mark.parametrize(("drafts", "emitted"), [((1, 0), [1, 0, 1]), ((1, 2), [1, 0]), ((0, 0), [1]), ((2, 1), [1])])
def test_verification_on_the_same_arrivals(operations, drafts, emitted):
    draws = [draw_after(drafts[:place]) for place in range(3)]
    outputs = operations.run(
        "verify_tree_greedy",
        {
            "candidates": i64([[9, *drafts]]),
            "retrieve_index": i64([[0, 1, 2]]),
            "retrieve_next_token": i64([[1, 2, -1]]),
            "retrieve_next_sibling": i64([[-1, -1, -1]]),
            "target_predict": i64([draws]),
            "num_steps": 2,
        },
    ).outputs
    assert outputs["predict"][: len(emitted)].tolist() == emitted
    assert outputs["num_accepted_drafts"].tolist() == [len(emitted) - 1]


def test_a_row_is_drawn_by_the_noise_of_its_seed_and_the_position_after_it(operations):
    logits = np.log(np.array([P, P, Q, Q], dtype=np.float64)).astype(np.float32)
    ones, zeros = f32([1, 1]), f32([0, 0])
    drawn = operations.run(
        "sample_target_predict",
        {
            "logits": logits,
            "temperature": ones,
            "top_k": i32([9, 9]),
            "top_p": ones,
            "min_p": zeros,
            "seeds": i64([7, 2**40]),
            "positions": i64([[11, 12], [11, 3]]),
        },
    ).outputs["target_predict"]
    keys = [
        [stream_key("token", 7, 12), stream_key("token", 7, 13)],
        [stream_key("token", 2**40, at) for at in (12, 4)],
    ]
    rows = np.array([[P, P], [Q, Q]], dtype=np.float64)
    expected = [
        [int(np.argmin(arrivals(key, 3) / row)) for key, row in zip(of_request, rows[request], strict=True)]
        for request, of_request in enumerate(keys)
    ]
    assert drawn.tolist() == expected


def test_a_fresh_draw_at_the_mismatch():
    law, _ = over_drafts(PLANTED["OWN-4200"])
    assert law == [Fraction(595, 1000), Fraction(267, 1000), Fraction(138, 1000)]


def test_a_residual_at_the_mismatch(operations):
    _, chance = over_drafts(operations)
    left = residual_of(P, Q)
    law = [p * q + (EVERYTHING - chance) * rest / sum(left) for p, q, rest in zip(P, Q, left, strict=True)]
    assert law == [Fraction(30, 100), Fraction(9, 100), Fraction(61, 100)]


def test_a_fresh_draw_for_every_child():
    law = law_over_draws(PLANTED["OWN-4201"], scene(0, 1))
    assert first_token(law) == [Fraction(75, 100), Fraction(15, 100), Fraction(10, 100)]


def test_rows_at_temperature_1(operations):
    half = operations.run(
        "target_probabilities",
        {
            "logits": np.log(np.array([P], dtype=np.float64)).astype(np.float32),
            "temperature": f32([0.5]),
            "top_k": i32([9]),
            "top_p": f32([1]),
            "min_p": f32([0]),
            "num_draft_tokens": 1,
        },
    ).outputs["target_probs"]
    np.testing.assert_allclose(half[0], [0.658, 0.237, 0.105], atol=5e-4)


def test_rows_of_argmax_emit_the_likeliest_token():
    drawn = (
        PLANTED["OWN-4205"]
        .run(
            "sample_target_predict",
            {
                "logits": np.log(np.array([P] * 8, dtype=np.float64)).astype(np.float32),
                "temperature": np.ones(8, dtype=np.float32),
                "top_k": np.full(8, 9, dtype=np.int32),
                "top_p": np.ones(8, dtype=np.float32),
                "min_p": np.zeros(8, dtype=np.float32),
                "seeds": i64(range(8)),
                "positions": np.zeros((8, 1), dtype=np.int64),
            },
        )
        .outputs["target_predict"]
    )
    assert not drawn.any(), "the first token of every seed is the likeliest"
