"""Chi-square verdicts: power, pooling, impossible outcomes, stages, and samplers that draw their own coins."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, ncx2

from specsim.conformance.backend import load
from specsim.conformance.limits import Limits
from specsim.operations.without_coins import WITHOUT_COINS
from specsim.properties.distribution import require_same_law
from specsim.properties.laws.frequencies import (
    LEAST_POWER,
    chi_square_law,
    detectable_effect,
    pooled,
    power_of,
    samples_needed,
    sequential_law,
)
from specsim.properties.operations.acceptance.laws_exact_chains import laws_of_chains, playing
from specsim.properties.operations.acceptance.laws_frequencies import (
    ALPHA,
    EFFECT,
    SAMPLER_OF_BLOCKS,
    SAMPLER_OF_CHAINS,
    SAMPLER_OF_TREES,
    emission_law,
)
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.sampling_scenes import make_chain
from specsim.properties.suite.catalogue import all_properties
from specsim.properties.suite.conformance.runner import check
from specsim.properties.suite.conformance.running import run_property
from specsim.properties.suite.conformance.selection import is_selected
from tests.properties.laws.block_verifier import BLOCK_FAULTS, block_verifier
from tests.properties.laws.planted_samplers import chain_sampler, tree_sampler
from tests.properties.laws.sampled_verifier import DRAW_FAULTS, sampled_verifier

FAIR = {(0,): Fraction(1, 2), (1,): Fraction(1, 4), (2,): Fraction(1, 4)}
REFERENCE = load("specsim.reference")


def test_the_statistic_is_that_of_scipy():
    found = chi_square_law({(0,): 520, (1,): 250, (2,): 230}, FAIR, alpha=1e-3, effect=0.5)
    expected = chisquare([520, 250, 230], [500, 250, 250])
    assert found.verdict == "fits"
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.sample_size == 1000


@pytest.mark.parametrize(("samples", "freedom", "effect"), [(100, 2, 0.3), (5000, 7, 0.1), (40, 1, 0.5)])
def test_the_power_is_that_of_the_noncentral_distribution(samples, freedom, effect):
    expected = ncx2.sf(chi2.isf(1e-6, freedom), freedom, samples * effect**2)
    assert power_of(samples, freedom, alpha=1e-6, effect=effect) == pytest.approx(expected, abs=1e-9)


def test_the_size_is_the_least_with_enough_power():
    needed = samples_needed(3, alpha=1e-9, effect=0.1)
    assert power_of(needed, 3, alpha=1e-9, effect=0.1) >= LEAST_POWER
    assert power_of(needed - 1, 3, alpha=1e-9, effect=0.1) < LEAST_POWER
    assert detectable_effect(needed, 3, alpha=1e-9) == pytest.approx(0.1, rel=1e-3)


def test_counts_of_another_law_differ():
    assert chi_square_law({(0,): 400, (1,): 400, (2,): 200}, FAIR, alpha=1e-6, effect=0.3).verdict == "differs"


def test_too_few_samples_decide_nothing():
    assert chi_square_law({(0,): 20, (1,): 10, (2,): 10}, FAIR, alpha=1e-6, effect=0.1).verdict == "inconclusive"
    assert chi_square_law({}, FAIR, alpha=1e-6, effect=0.1).verdict == "inconclusive"
    assert chi_square_law({(0,): 3}, FAIR, alpha=1e-6, effect=100.0).verdict == "inconclusive"


def test_an_impossible_outcome_differs_at_once():
    found = chi_square_law({(0,): 3, (9,): 1}, FAIR, alpha=1e-6, effect=0.1)
    assert (found.verdict, found.p_value) == ("differs", 0.0)
    assert chi_square_law({(0,): 3, (1,): 1}, {(0,): 1, (1,): 0}, alpha=1e-6, effect=0.1).verdict == "differs"


def test_a_certain_outcome_fits():
    assert chi_square_law({(0,): 3}, {(0,): Fraction(1)}, alpha=1e-6, effect=0.1).verdict == "fits"


def test_rare_outcomes_are_pooled():
    law = {(0,): 0.9, (1,): 0.06, (2,): 0.03, (3,): 0.01}
    assert pooled({(0,): 90, (1,): 7, (2,): 2, (3,): 1}, law, 100) == [(90, 90.0), (10, pytest.approx(10.0))]
    assert pooled({(0,): 80, (1,): 15, (2,): 5}, {(0,): 0.8, (1,): 0.14, (2,): 0.03, (3,): 0.03}, 100) == [
        (80, 80.0),
        (15, pytest.approx(14.0)),
        (5, pytest.approx(6.0)),
    ]


def test_false_alarms_are_as_rare_as_stated():
    random = np.random.default_rng(5)
    draws = random.multinomial(400, [0.5, 0.25, 0.25], size=2000)
    alarms = sum(
        chi_square_law({(place,): int(count) for place, count in enumerate(one)}, FAIR, alpha=0.05, effect=0.3).verdict
        == "differs"
        for one in draws
    )
    assert 0.03 < alarms / 2000 < 0.07


def sampler(shares, seen):
    def sample(number, look):
        seen.append(number)
        counts = np.random.default_rng(look).multinomial(number, shares)
        return {(place,): int(count) for place, count in enumerate(counts)}

    return sample


def test_a_far_law_is_rejected_at_the_first_look():
    seen = []
    found = sequential_law(sampler([0.1, 0.1, 0.8], seen), FAIR, alpha=1e-6, effect=0.1)
    assert found.verdict == "differs"
    assert len(seen) == 1


def test_the_right_law_is_sampled_to_the_size_that_its_power_needs():
    seen = []
    found = sequential_law(sampler([0.5, 0.25, 0.25], seen), FAIR, alpha=1e-6, effect=0.1)
    assert found.verdict == "fits"
    assert sum(seen) == found.sample_size == samples_needed(2, alpha=1e-6 / 4, effect=0.1)


def test_a_sampler_that_gives_fewer_decides_nothing():
    found = sequential_law(sampler([0.5, 0.25, 0.25], []), FAIR, alpha=1e-6, effect=0.1, most_samples=50)
    assert (found.verdict, found.sample_size) == ("inconclusive", 50)


def drawing(sampler_with_coins):
    """Return the form of a tree sampler that draws its own coins."""

    def tree_without_coins(*, seed, **arguments):
        random = np.random.default_rng(seed)
        coins = random.random(arguments["candidates"].shape, dtype=np.float32)
        final = random.random(len(coins), dtype=np.float32)
        return sampler_with_coins(uniform_samples=coins, uniform_samples_for_final_sampling=final, **arguments)

    return tree_without_coins


def drawing_chains(sampler_with_coins):
    def chain_without_coins(*, seed, **arguments):
        random = np.random.default_rng(seed)
        coins = random.random(len(arguments["draft_tokens"]), dtype=np.float32)
        final = random.random(len(arguments["cu_num_drafts"]) - 1, dtype=np.float32)
        return sampler_with_coins(uniform_samples=coins, uniform_samples_for_final_sampling=final, **arguments)

    return chain_without_coins


OF_SAMPLERS = [one for one in all_properties() if WITHOUT_COINS.keys() & set(one.operations)]
PROPERTIES = {one.operations[0]: one for one in OF_SAMPLERS if one.catalogue == "P04"}
ACCEPTANCE = {one.operations[0]: one for one in OF_SAMPLERS if one.catalogue == "P63"}
BOTH = (PROPERTIES, ACCEPTANCE)


@pytest.mark.parametrize("fault", [None, "V01", "V03", "SYN6", "GREEDY"])
def test_frequencies_tell_an_honest_tree_sampler_from_a_biased_one(fault):
    backend = REFERENCE.with_function(SAMPLER_OF_TREES, drawing(tree_sampler(fault)), "drawing")
    report, failure = run_property(PROPERTIES[SAMPLER_OF_TREES], backend, 3, 10, is_shrunk=False)
    assert report.failed == (fault is not None)
    assert report.inconclusive == ""
    assert (failure is not None) == (fault is not None)


@pytest.mark.parametrize("fault", [None, "V05"])
def test_frequencies_tell_an_honest_chain_sampler_from_a_biased_one(fault):
    backend = REFERENCE.with_function(SAMPLER_OF_CHAINS, drawing_chains(chain_sampler(fault)), "drawing")
    report, _ = run_property(PROPERTIES[SAMPLER_OF_CHAINS], backend, 3, 10, is_shrunk=False)
    assert report.failed == (fault is not None)


@pytest.mark.parametrize("fault", [None, *BLOCK_FAULTS])
def test_frequencies_tell_an_honest_block_verifier_from_a_biased_one(fault):
    backend = REFERENCE.with_function(SAMPLER_OF_CHAINS, block_verifier(fault), "block")
    report, _ = run_property(PROPERTIES[SAMPLER_OF_CHAINS], backend, 3, 6, is_shrunk=False)
    assert report.failed == (fault is not None) and report.inconclusive == ""
    if fault is None:
        assert not run_property(ACCEPTANCE[SAMPLER_OF_CHAINS], backend, 3, 6, is_shrunk=False)[0].failed


@pytest.mark.parametrize("fault", [None, *DRAW_FAULTS])
def test_frequencies_tell_sampled_verify_from_its_neighbours(fault):
    backend = REFERENCE.with_function(SAMPLER_OF_CHAINS, sampled_verifier(fault), "drawn")
    report, _ = run_property(PROPERTIES[SAMPLER_OF_CHAINS], backend, 3, 8, is_shrunk=False)
    assert report.failed == (fault is not None) and report.inconclusive == ""


@pytest.mark.parametrize(("declared", "is_enough"), [(Limits(), False), (Limits(accepts_equal_draws=True), True)])
def test_sampled_verify_accepts_as_many_drafts_as_it_says(declared, is_enough):
    few = ACCEPTANCE[SAMPLER_OF_CHAINS]
    backend = replace(REFERENCE.with_function(SAMPLER_OF_CHAINS, sampled_verifier(), "drawn"), limits=declared)
    assert run_property(few, backend, 3, 8, is_shrunk=False)[0].failed is not is_enough
    seldom = replace(REFERENCE.with_function(SAMPLER_OF_CHAINS, refusing, "refusing"), limits=declared)
    assert run_property(few, seldom, 3, 4, is_shrunk=False)[0].failed


@pytest.mark.parametrize("fault", [None, "last front"])
def test_frequencies_judge_a_sampler_that_claims_to_verify_blocks(fault):
    backend = REFERENCE.with_function(SAMPLER_OF_BLOCKS, block_verifier(fault), "block")
    report, _ = run_property(PROPERTIES[SAMPLER_OF_BLOCKS], backend, 3, 6, is_shrunk=False)
    assert report.failed == (fault is not None) and report.inconclusive == ""
    if fault is None:
        assert not run_property(ACCEPTANCE[SAMPLER_OF_BLOCKS], backend, 3, 6, is_shrunk=False)[0].failed


def test_drawn_drafts_that_count_as_certain_leave_the_law_and_are_accepted_too_seldom():
    backend = REFERENCE.with_function(SAMPLER_OF_CHAINS, drawing_chains(chain_sampler("V13")), "drawing")
    failed = [run_property(one[SAMPLER_OF_CHAINS], backend, 3, 8, is_shrunk=False)[0].failed for one in BOTH]
    assert failed == [False, True]


def refusing(*, draft_tokens, cu_num_drafts, draft_probs, target_probs, max_num_drafts, seed):
    """Accept no draft: the law is the target's, and nothing is gained."""
    del draft_tokens, draft_probs
    random, count = np.random.default_rng(seed), len(cu_num_drafts) - 1
    output = np.full((count, max_num_drafts + 1), -1, dtype=np.int32)
    for request, first in enumerate(cu_num_drafts[:-1]):
        row = target_probs[first + request].astype(float)
        output[request, 0] = random.choice(len(row), p=row / row.sum())
    return output, np.zeros(count, dtype=np.int32)


def test_a_sampler_that_accepts_nothing_is_exact_and_accepts_too_few():
    backend = REFERENCE.with_function(SAMPLER_OF_CHAINS, refusing, "refusing")
    assert not run_property(PROPERTIES[SAMPLER_OF_CHAINS], backend, 3, 4, is_shrunk=False)[0].failed
    blocks = REFERENCE.with_function(SAMPLER_OF_BLOCKS, refusing, "refusing")
    assert run_property(ACCEPTANCE[SAMPLER_OF_BLOCKS], blocks, 3, 4, is_shrunk=False)[0].failed
    few = ACCEPTANCE[SAMPLER_OF_CHAINS]
    report, failure = run_property(few, backend, 3, 4, is_shrunk=False)
    assert report.failed and "accepted drafts a verify, " in failure.message
    declared = replace(backend, limits=Limits(accepts_any_number=True))
    assert run_property(few, declared, 3, 4)[0].is_excluded


def test_a_tree_sampler_that_stops_above_a_child_is_exact_and_accepts_too_few():
    def stopping(**arguments):
        return tree_sampler()(**{**arguments, "num_steps": 0})

    def padded(**arguments):
        predict, accept_index, drafts = stopping(**arguments)
        return predict, np.pad(accept_index, ((0, 0), (0, arguments["num_steps"])), constant_values=-1), drafts

    backend = REFERENCE.with_function(SAMPLER_OF_TREES, drawing(padded), "stopping")
    assert not run_property(PROPERTIES[SAMPLER_OF_TREES], backend, 3, 4, is_shrunk=False)[0].failed
    assert run_property(ACCEPTANCE[SAMPLER_OF_TREES], backend, 3, 6, is_shrunk=False)[0].failed


def test_too_few_samples_make_the_whole_check_inconclusive():
    backend = load("specsim.reference").with_function(SAMPLER_OF_TREES, drawing(tree_sampler()), "drawing")
    limited = type(backend)(
        **{**vars(backend), "max_samples": 60, "functions": {SAMPLER_OF_TREES: drawing(tree_sampler())}}
    )
    report = check(limited, seed=1, max_examples=20)
    assert report.verdict == "inconclusive"
    (reason,) = {one.inconclusive for one in report.properties.values() if one.inconclusive}
    assert "60 samples notice w = 0.15" in reason


def test_laws_of_frequencies_are_chosen_only_for_samplers_that_draw_their_own_coins():
    assert PROPERTIES.keys() == ACCEPTANCE.keys() == WITHOUT_COINS.keys()
    assert not [one for one in OF_SAMPLERS if is_selected(one, REFERENCE)]


def test_the_emission_law_is_what_enumeration_gives():
    for seed in range(1, 8):
        scene = make_chain(seeded(seed), 2, 3, "any", "any")
        (laws,) = laws_of_chains(replace(playing(REFERENCE, [scene]), slack=Fraction(0)))
        law = Counter()
        for _, chance, emitted in laws:
            for sequence, weight in emitted.items():
                law[sequence] += chance * weight
        require_same_law("emission law", emission_law(scene), law)


def test_the_stated_size_holds_for_every_scene():
    assert samples_needed(80, alpha=ALPHA / 4, effect=EFFECT) < 10_000
