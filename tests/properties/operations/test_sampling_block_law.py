"""The exact law of blocks: its rule in rational numbers alone, known numbers, and verifiers that a user brings."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from specsim.conformance.backend import load
from specsim.properties.distribution import autoregressive, enumerate_cells, extend, require_same_law
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, TOKEN_BY_TOKEN, chain_axes
from specsim.properties.operations.acceptance.laws_exact_blocks import kept_fronts, playing_blocks
from specsim.properties.operations.acceptance.laws_exact_chains import (
    accepted_one_by_one,
    describe,
    last_shares,
    laws_of_chains,
    playing,
    require_chain_law,
)
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.sampling_scenes import ChainScene, longest_chain, make_chain
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.running import run_property

REFERENCE = load("specsim.reference")
HALF = (Fraction(1, 2), Fraction(1, 2))
HALVES = ChainScene(
    2,
    {
        (): HALF,
        **{(token,): (Fraction(1), Fraction(0)) for token in range(2)},
        **dict.fromkeys(product(range(2), repeat=2), (Fraction(1, 4), Fraction(3, 4))),
    },
    {(): (Fraction(3, 4), Fraction(1, 4)), (0,): HALF, (1,): HALF},
)
"""The chain of the worked example of semantics B.9b."""

TARGET = {(): HALF, (0,): (Fraction(3, 4), Fraction(1, 4)), (1,): (Fraction(1, 4), Fraction(3, 4))}
DRAFT = {(): (Fraction(2, 3), Fraction(1, 3)), (0,): HALF, (1,): (Fraction(9, 10), Fraction(1, 10))}


def anchored(num_drafts):
    """Return a chain whose laws are no dyadic numbers."""
    after = dict.fromkeys(product(range(2), repeat=2), (Fraction(1, 3), Fraction(2, 3)))
    proposal = {prefix: row for prefix, row in DRAFT.items() if len(prefix) < num_drafts}
    return ChainScene(num_drafts, {**TARGET, **after}, proposal)


def law_of_rule(scene, rule):
    """Return the law that a rule emits by its own bounds, and the average of drafts that it keeps."""
    law, mean = {}, Fraction(0)
    for draft, chance in scene.drafts():
        bounds = rule.bounds(scene, draft)
        cells = enumerate_cells(chain_axes(scene, draft, rule)[:-1])
        for coins, weight in zip(cells.middles, cells.weights, strict=True):
            below = [coin < bound for coin, bound in zip(coins.tolist(), bounds, strict=True)]
            count = max([place for place, one in enumerate(below, 1) if one], default=0)
            if rule is TOKEN_BY_TOKEN:
                count = [*below, False].index(False)
            mean += chance * weight * count
            emitted = {(*draft[:count], token): share for token, share in last_shares(scene, draft, count, rule)}
            for sequence, share in extend(emitted, scene.target.__getitem__, scene.num_drafts + 1).items():
                law[sequence] = law.get(sequence, Fraction(0)) + chance * weight * share
    return law, mean


@pytest.mark.parametrize("vocab", [2, 3, 4])
def test_the_rule_of_blocks_is_exact_and_keeps_no_fewer_drafts(vocab):
    for seed in range(6):
        scene = make_chain(seeded(seed), longest_chain(vocab), vocab, "any", "any")
        expected = autoregressive(scene.target.__getitem__, scene.num_drafts + 1)
        (law, kept), (other, accepted) = (law_of_rule(scene, rule) for rule in (AS_A_BLOCK, TOKEN_BY_TOKEN))
        require_same_law(describe(scene), law, expected)
        require_same_law(describe(scene), other, expected)
        assert kept >= accepted
    assert kept > accepted


def test_the_worked_example_keeps_5_4_drafts_and_token_by_token_9_8():
    assert law_of_rule(HALVES, AS_A_BLOCK)[1] == Fraction(5, 4)
    assert law_of_rule(HALVES, TOKEN_BY_TOKEN)[1] == Fraction(9, 8)
    kept = {front: 8 * share for front, (_, share) in kept_fronts(playing_blocks(REFERENCE, [HALVES])).items()}
    assert kept == {(0,): 4, (1,): 2, (0, 0): 3, (0, 1): 0, (1, 0): 1, (1, 1): 0}


@pytest.mark.parametrize("num_drafts", [0, 1, 2])
def test_a_block_that_is_cut_anywhere_has_the_exact_law(num_drafts):
    require_chain_law(playing_blocks(REFERENCE, [anchored(num_drafts)]))


def test_two_whole_blocks_emit_4_82_tokens_and_4_65_token_by_token():
    scene = anchored(2)
    blocks = playing_blocks(REFERENCE, [scene])
    assert 2 * (1 + sum(kept for _, kept in kept_fronts(blocks).values())) == pytest.approx(4.82, abs=5e-3)
    (laws,) = laws_of_chains(replace(playing(REFERENCE, [scene]), slack_at_one=blocks.slack))
    tokens = sum(chance * sum(len(one) * share for one, share in law.items()) for _, chance, law in laws)
    assert 2 * tokens == pytest.approx(4.65, abs=5e-3)
    fronts = {front: chance * accepted_one_by_one(scene, front, len(front)) for front, chance in chances(scene).items()}
    assert tokens == 1 + sum(fronts.values())


def chances(scene):
    """Return the chance of every front of the drafts to be drawn."""
    found = {}
    for draft, chance in scene.drafts():
        for count in range(1, len(draft) + 1):
            found[draft[:count]] = found.get(draft[:count], Fraction(0)) + chance
    return found


def test_a_verifier_of_blocks_conforms_under_the_name_of_its_rule_alone():
    """The law takes every exact rule under its own name: a block is no rejection token by token, and the reverse."""
    samplers = {name: REFERENCE.functions[name] for name in ("chain_block_verification", "chain_speculative_sampling")}
    laws = {one.name: one for one in all_properties()}
    for claimed, law in (
        ("chain_block_verification", "sampling_block_law.block_emits_the_targets_law"),
        ("chain_speculative_sampling", "sampling_chain_law.chain_emits_the_targets_law"),
    ):
        for name, function in samplers.items():
            backend = REFERENCE.with_function(claimed, function, f"{name} as {claimed}")
            report, _ = run_property(laws[law], backend, 3, 20, is_shrunk=False)
            assert report.failed == (name != claimed)
