"""What rounding may change of a law, measured: which arithmetic stays below it, and which does not."""

from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.properties.laws.sampling_cells import CHAIN_SAMPLER
from specsim.properties.operations.from_logits.faults_rounding import in_the_other_form, leaving
from specsim.properties.operations.from_logits.laws_rounding import (
    block_moves_no_more_than_its_inputs,
    chain_moves_no_more_than_its_inputs,
    tree_moves_no_more_than_its_inputs,
)
from specsim.properties.operations.from_logits.rounded import Draw, Range, as_a_block, known, one_by_one
from specsim.properties.operations.from_logits.strategy_rounded import as_row, broad_row, pair
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene
from specsim.topology import Topology

REFERENCE = load("specsim.reference")
HALF = ml_dtypes.bfloat16
BOUND = {"float32": 2.0**-24, "bfloat16": 2.0**-9}
"""Half a unit in the last place. That is how far rounding p and q moves ``max(p - q, 0)`` in total variation: each of
its tokens moves by half a unit of p + q at most, and half of the sum over p + q is 1."""
ROWS = {"close": 2000, "near": 2000, "broad": 2000}


def rows_of(kind, dtype="float32"):
    for number in range(1, ROWS[kind]):
        source, vocab = seeded(number), (2, 3, 4)[number % 3]
        rows = (broad_row(source, vocab), broad_row(source, vocab)) if kind == "broad" else pair(source, vocab, kind)
        yield [row.astype(dtype).astype(np.float64) for row in rows]


def plain(p, q, dtype=np.float64):
    return np.maximum(p.astype(dtype) - q.astype(dtype), 0).astype(np.float64)


def distance(p, q, form):
    """Return how far the form of a rest moves the law, in total variation: a rejection draws from it."""
    rest = plain(p, q)
    got = form(p, q) if form(p, q).any() else np.eye(len(p))[-1]
    return float(np.abs(got / got.sum() * rest.sum() - rest).sum() / 2) if rest.any() else 0.0


def largest(kind, form, dtype="float32"):
    """Return the largest distance among rows of an element type, in shares of what rounding these rows may do."""
    return max(distance(p, q, form) for p, q in rows_of(kind, dtype)) / BOUND[dtype]


@pytest.mark.parametrize("kind", ROWS)
def test_the_other_form_in_float32_moves_the_law_less_than_rounding_its_inputs(kind):
    assert largest(kind, partial(in_the_other_form, dtype=np.float32)) == pytest.approx(
        {"close": 0.27, "near": 0.24, "broad": 0.46}[kind], abs=0.1
    )


@pytest.mark.parametrize(("kind", "least"), [("close", 5), ("near", 40_000), ("broad", 40_000)])
def test_in_bfloat16_it_moves_the_law_of_float32_rows_by_far_more(kind, least):
    assert largest(kind, partial(in_the_other_form, dtype=HALF)) > least
    assert largest(kind, partial(plain, dtype=HALF)) > least


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_bfloat16_know_no_better(kind):
    assert largest(kind, partial(in_the_other_form, dtype=HALF), "bfloat16") < 1
    assert largest(kind, partial(plain, dtype=HALF), "bfloat16") < 1


@pytest.mark.parametrize("kind", ROWS)
def test_the_bound_is_what_rounding_the_inputs_comes_to(kind):
    random, moved = np.random.default_rng(1), []
    for p, q in rows_of(kind):
        signs = random.choice((-1, 1), (2, len(p)))
        rounded = plain(p * (1 + signs[0] * BOUND["float32"]), q * (1 + signs[1] * BOUND["float32"]))
        moved.append(np.abs(rounded - plain(p, q)).sum() / 2 / BOUND["float32"])
    assert 0.9 < max(moved) < 1.0001


@pytest.mark.parametrize(("dtype", "least", "most"), [(np.float32, 0, 0), (HALF, 10, 20)])
def test_the_law_takes_the_other_form_in_float32_and_refuses_it_in_bfloat16(dtype, least, most):
    sampler = leaving(partial(in_the_other_form, dtype=dtype))(REFERENCE.functions[CHAIN_SAMPLER])
    faulty, refused = REFERENCE.with_function(CHAIN_SAMPLER, sampler, "planted"), 0
    for number in range(1, 41):
        p, q = pair(seeded(number), 4, ("close", "near")[number % 2])
        after = {(token,): as_row(p) for token in range(4)}
        try:
            chain_moves_no_more_than_its_inputs(faulty, ChainScene(1, {(): as_row(p), **after}, {(): as_row(q)}))
        except AssertionError as error:
            assert "but should be" in str(error)
            refused += 1
    assert least <= refused <= most


def test_a_probability_is_known_to_a_unit_and_nothing_to_nothing():
    assert known(Fraction(1, 2)) == Range(Fraction(1, 2) - Fraction(1, 2**24), Fraction(1, 2) + Fraction(1, 2**24))
    assert known(Fraction(3, 2**149)) == Range(Fraction(2, 2**149), Fraction(4, 2**149))
    assert known(Fraction(0)) == Range(Fraction(0), Fraction(0))


def test_a_draw_takes_either_token_at_its_edge_only():
    half = Fraction(1, 2)
    two = Draw([known(half), known(Fraction(0)), known(half)], Fraction(0))
    assert [two.possible(coin) for coin in (Fraction(0), Fraction(499, 1000), half, Fraction(501, 1000))] == [
        [0],
        [0],
        [0, 2],
        [2],
    ]
    assert sorted(two.coins()) == [2**23 - 2, 2**23 + 1]


def test_a_draft_below_its_bound_is_accepted_and_after_it_what_is_left_comes_out():
    row = (Fraction(1, 4), Fraction(3, 4))
    judged = one_by_one(ChainScene(1, {(): row, (0,): row, (1,): row}, {(): row[::-1]}), (0,), Fraction(0))
    assert judged.possible([Fraction(1, 4), Fraction(0)]) == {(0, 0)}
    assert judged.possible([Fraction(1, 2), Fraction(0)]) == {(1,)}
    assert judged.possible([Fraction(1, 3), Fraction(0)]) == {(0, 0), (1,)}


LARGEST_BELOW_ONE = Fraction(2**24 - 1, 2**24)
SUBNORMAL = Fraction(5000, 2**149)


@pytest.mark.parametrize("law", [chain_moves_no_more_than_its_inputs, block_moves_no_more_than_its_inputs])
def test_subnormal_mass_is_what_a_rejection_leaves(law):
    target, draft = (LARGEST_BELOW_ONE, SUBNORMAL, Fraction(0)), (Fraction(1), Fraction(0), Fraction(0))
    scene = ChainScene(1, {(): target, (0,): target}, {(): draft})
    law(REFERENCE, scene)
    judged = one_by_one(scene, (0,), Fraction(0))
    assert (2,) not in judged.possible([LARGEST_BELOW_ONE, Fraction(0)])
    assert (1,) in judged.possible([LARGEST_BELOW_ONE, Fraction(0)])


def test_a_tree_whose_children_have_all_but_a_unit_leaves_that():
    row = (LARGEST_BELOW_ONE, Fraction(1, 2**24), Fraction(0))
    tree_moves_no_more_than_its_inputs(REFERENCE, TreeScene(Topology.from_parents((-1, 0)), (0, 0), (row, row), 1))


SHORTER = Fraction(2**18 - 1, 2**18)
HALVES = (Fraction(0), Fraction(1, 2), Fraction(1, 2), Fraction(0))
ABOVE = tuple(share * (1 + Fraction(1, 2**21)) for share in HALVES)
NOTHING_LEFT = ChainScene(1, {(): HALVES, **{(token,): HALVES for token in range(4)}}, {(): ABOVE})


@pytest.mark.parametrize("judge", [one_by_one, as_a_block])
def test_where_nothing_is_left_the_last_token_may_come_out_or_one_of_the_target(judge):
    row = (SHORTER, Fraction(0))
    certain = ChainScene(1, {(): row, (0,): row, (1,): row}, {}, certain=(0,))
    assert judge(certain, (0,), Fraction(0)).possible([LARGEST_BELOW_ONE, Fraction(0)]) == {(0,), (1,)}
    judged = judge(NOTHING_LEFT, (1,), Fraction(0))
    assert judged.possible([LARGEST_BELOW_ONE, Fraction(0)]) == {(1,), (2,), (3,)}


def test_the_law_refuses_a_token_that_the_target_excludes_where_nothing_is_left():
    def first_token(p, q):
        return plain(p, q) if plain(p, q).any() else np.eye(len(p))[0]

    def target(p, q):
        return plain(p, q) if plain(p, q).any() else p

    for form in (plain, target):
        sampler = leaving(form)(REFERENCE.functions[CHAIN_SAMPLER])
        chain_moves_no_more_than_its_inputs(REFERENCE.with_function(CHAIN_SAMPLER, sampler, "planted"), NOTHING_LEFT)
    sampler = leaving(first_token)(REFERENCE.functions[CHAIN_SAMPLER])
    with pytest.raises(AssertionError, match=r"= \[0\], but should be"):
        chain_moves_no_more_than_its_inputs(REFERENCE.with_function(CHAIN_SAMPLER, sampler, "planted"), NOTHING_LEFT)
