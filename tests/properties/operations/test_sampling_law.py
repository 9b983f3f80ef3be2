"""The law of the reference is exact on every small tree and chain, and every planted fault breaks it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.properties.distribution import NOTHING
from specsim.properties.laws.sampling_cells import CHAIN_SAMPLER, TREE_SAMPLER
from specsim.properties.operations.acceptance.laws_exact_chains import playing, require_chain_law
from specsim.properties.operations.acceptance.laws_exact_trees import require_tree_law
from specsim.properties.operations.from_logits.laws_exact_trees import (
    logit_array,
    require_law_from_logits,
    sampling_arguments,
)
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.logit_scenes import ALL_FILTERS, LogitScene, TreeScene, catalogue, make_scene
from specsim.properties.strategies.sampling_scenes import (
    PROPOSALS,
    ROW_KINDS,
    VOCABULARIES,
    all_rows,
    all_shapes,
    longest_chain,
    make_chain,
    make_tree,
)
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.hunt.cases import draw_cases, find_breaking, require_sound
from specsim.topology import Topology
from tests.properties.laws.planted_samplers import CHAIN_FAULTS, TREE_FAULTS, chain_sampler, tree_sampler

REFERENCE = load("specsim.reference")
LAWS = {one.name: one for one in all_properties() if one.name.startswith("sampling_")}
SHAPES = list(all_shapes())


def test_every_shape_is_enumerated():
    assert [sum(len(shape) == count for shape in SHAPES) for count in range(1, 6)] == [1, 1, 2, 6, 24]


@pytest.mark.parametrize("vocab_size", VOCABULARIES)
@pytest.mark.parametrize("kind", sorted(set(ROW_KINDS)))
def test_every_tree_of_the_reference_has_the_exact_law(vocab_size, kind):
    for seed in range(1, 4):
        for place, shape in enumerate(SHAPES):
            scene = make_tree(seeded(1000 * seed + place), shape, vocab_size, kind, cut_steps=seed % 2)
            require_tree_law(REFERENCE, scene, NOTHING)


def test_every_row_over_two_tokens_has_the_exact_law_on_a_forked_tree():
    for first in all_rows(2):
        for second in all_rows(2):
            for tokens in ((0, 0, 1), (0, 1, 0), (0, 1, 1)):
                require_tree_law(
                    REFERENCE, TreeScene(Topology.from_parents((-1, 0, 0)), tokens, (first, second, second), 1), NOTHING
                )


@pytest.mark.parametrize("vocab_size", VOCABULARIES)
@pytest.mark.parametrize("proposal", sorted(set(PROPOSALS)))
def test_every_length_of_chain_of_the_reference_has_the_exact_law(vocab_size, proposal):
    for num_drafts in range(longest_chain(vocab_size) + 1):
        for seed, kind in enumerate(ROW_KINDS, 1):
            scene = make_chain(seeded(100 * num_drafts + seed), num_drafts, vocab_size, kind, proposal, seed % 2)
            require_chain_law(replace(playing(REFERENCE, [scene]), slack=NOTHING))


def test_four_drafts_over_two_tokens_are_the_longest():
    assert [longest_chain(size) for size in VOCABULARIES] == [4, 3, 2]


@pytest.mark.parametrize("filters", ALL_FILTERS, ids=str)
def test_every_filter_of_the_reference_has_the_exact_law_from_logits(filters):
    for vocab_size in VOCABULARIES:
        for place, shape in enumerate(SHAPES):
            scene = make_scene(seeded(place + 1), shape, vocab_size, filters, len(shape) - 1)
            require_law_from_logits(REFERENCE, [scene], NOTHING, "bfloat16" if place % 2 else "float32")


@pytest.mark.parametrize("filters", ALL_FILTERS, ids=str)
@pytest.mark.parametrize("vocab_size", VOCABULARIES)
def test_filtered_whole_number_logits_are_exactly_dyadic_in_the_reference(vocab_size, filters):
    rows = catalogue(vocab_size, filters)
    tree = TreeScene(Topology.from_parents((-1,)), (0,), (rows[0][1],), 0)
    arguments = sampling_arguments([LogitScene(tree, (rows[0][0],), filters)], [len(rows)])
    arguments = {name: value for name, value in arguments.items() if not name.startswith("threshold")}
    got = REFERENCE.call(
        "target_probabilities", logits=logit_array([logits for logits, _ in rows]), num_draft_tokens=1, **arguments
    )
    assert len(rows) >= 12
    assert [[Fraction(float(share)) for share in row] for row in got] == [list(row) for _, row in rows]


KILLERS = {
    "V01": {"sampling_law.tree_emits_the_targets_law", "sampling_law.last_token_is_independent_of_other_coins"},
    "V02": {"sampling_law.tree_emits_the_targets_law", "sampling_law.impossible_tokens_are_never_emitted"},
    "V03": {"sampling_law.tree_emits_the_targets_law"},
    "V29": {"sampling_law.acceptance_is_the_mass_of_the_children"},
    "SYN5": {"sampling_law.tree_emits_the_targets_law"},
    "SYN6": {"sampling_law.tree_emits_the_targets_law"},
    "DUPLICATES": {"sampling_law.equal_siblings_leave_the_law_alone"},
}


SHARED_COIN = {"sampling_chain_law.last_token_of_a_chain_is_independent_of_other_coins"}
WRONG_RATE = {"sampling_chain_law.acceptance_is_the_overlap"}
KILLERS_OF_CHAINS = {
    "V01": SHARED_COIN,
    "V11": SHARED_COIN,
    "V06": WRONG_RATE,
    "V08": WRONG_RATE,
    "V13": WRONG_RATE,
}


def test_who_is_to_be_found_by_name_is_planted():
    assert KILLERS.keys() <= set(TREE_FAULTS)
    assert KILLERS_OF_CHAINS.keys() <= set(CHAIN_FAULTS)


@pytest.mark.parametrize("fault", [None, *TREE_FAULTS])
def test_a_planted_fault_breaks_the_law_of_the_tree(fault):
    broken = breaking(TREE_SAMPLER, tree_sampler(fault))
    assert bool(broken) == (fault is not None)
    assert KILLERS.get(fault, set()) <= broken


@pytest.mark.parametrize("fault", [None, *CHAIN_FAULTS])
def test_a_planted_fault_breaks_the_law_of_the_chain(fault):
    broken = breaking(CHAIN_SAMPLER, chain_sampler(fault))
    assert ("sampling_chain_law.chain_emits_the_targets_law" in broken) == (fault is not None)
    assert KILLERS_OF_CHAINS.get(fault, set()) <= broken
    if fault is None:
        assert not broken


def breaking(operation, function):
    """Return the laws that an implementation of one sampler breaks."""
    faulty = REFERENCE.with_function(operation, function, "planted")
    chosen = [one for one in LAWS.values() if operation in one.operations]
    return {one.name for one in chosen if find_breaking(one, faulty, cases_of(one)) is not None}


CASES = {}


def cases_of(one):
    """Return cases on which the reference holds."""
    if one.name not in CASES:
        CASES[one.name] = draw_cases(one, 7, 60)
        require_sound(one, REFERENCE, CASES[one.name])
    return CASES[one.name]


def test_a_message_names_the_sequence_and_both_fractions():
    half = Fraction(1, 2)
    scene = TreeScene(Topology.from_parents((-1, 0)), (0, 1), ((half, half), (half, half)), 1)
    always = REFERENCE.with_function(TREE_SAMPLER, tree_sampler("GREEDY"), "planted")
    with pytest.raises(AssertionError) as caught:
        require_tree_law(always, scene, NOTHING)
    assert str(caught.value) == (
        "law of parents [-1, 0], tokens [0, 1], rows (1/2,1/2) (1/2,1/2), 1 steps: P[1, 0] = 1/2, but should be 1/4"
    )


def test_an_implementation_in_single_precision_passes_within_its_rounding():
    def in_float32(**arguments):
        shifted = arguments["uniform_samples"] * np.float32(1 - 2.0**-22)
        return tree_sampler()(**{**arguments, "uniform_samples": shifted})

    rounding = REFERENCE.with_function(TREE_SAMPLER, in_float32, "rounding")
    law = LAWS["sampling_law.tree_emits_the_targets_law"]
    assert find_breaking(law, rounding, cases_of(law)) is None
