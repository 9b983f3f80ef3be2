"""The engine emits exactly the law of decoding token by token, and sampled requests follow their seeds."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.conformance.completed import Completed
from specsim.host.sampling import SamplingParameters
from specsim.properties.distribution import NOTHING, autoregressive, cut, enumerate_cells
from specsim.properties.runs.sampling.laws_sampled import (
    both_workers_sample_alike,
    engine_emits_the_autoregressive_law,
    requests_draw_different_coins,
    sampled_output_follows_its_seed,
    sampled_scenario,
)
from specsim.properties.runs.sampling.sampled_law import HALVING
from specsim.properties.runs.sampling.sampled_runs import Watched, law_of_runs
from specsim.reference.walks import Acceptance, Coins, DraftTree, walk_tree
from specsim.simulation.models.hash_model import HashModel
from specsim.topology import Topology
from tests.properties.laws.planted_samplers import tree_sampler

REFERENCE = load("specsim.reference")
CHAIN, TREE = SpecConfig(1, 2, 3), SpecConfig(2, 2, 5)
RUN = sampled_scenario(TREE, HashModel(3, 11, 0.9), ((1, 2), (0, 2, 2)), (HALVING, None), 3)
SEEDED = sampled_scenario(
    TREE,
    HashModel(16, 3, 0.9),
    ((1, 2), (1, 2), (5,)),
    (replace(HALVING, seed=1), replace(HALVING, seed=2), SamplingParameters(seed=7)),
    8,
)


@pytest.mark.parametrize("is_v1", [False, True], ids=["V2", "V1"])
@pytest.mark.parametrize("vocab_size", [2, 3, 4])
@pytest.mark.parametrize("config", [CHAIN, TREE], ids=["chain", "tree"])
def test_the_engine_emits_the_autoregressive_law_beside_a_greedy_request(config, vocab_size, is_v1):
    model = HashModel(vocab_size, 5, 0.9)
    prompts = ((1, 0), (0, 1, 1))
    run = sampled_scenario(config, model, prompts, (HALVING, None), 3 if vocab_size < 4 else 2, is_v1=is_v1)
    engine_emits_the_autoregressive_law(REFERENCE, run)


@pytest.mark.parametrize("num_right", [0, 1, 2])
def test_neither_a_hostile_nor_a_perfect_draft_changes_the_law(num_right):
    model = HashModel(3, 2, num_right=num_right)
    engine_emits_the_autoregressive_law(REFERENCE, RUN.having(model=model).asking(max_new_tokens=2))


def from_logits(fault):
    """Return the composition from logits with a planted sampler."""
    sample = tree_sampler(fault)

    def verify_tree_sampled_from_logits(logits, temperature, top_k, top_p, min_p, **arguments):
        shape = (*arguments["candidates"].shape, logits.shape[1])
        target_probs = REFERENCE.call(
            "target_probabilities",
            logits=logits,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            num_draft_tokens=shape[1],
        ).reshape(shape)
        return sample(target_probs=target_probs, draft_probs=np.zeros_like(target_probs), **arguments)

    return verify_tree_sampled_from_logits


@pytest.mark.parametrize("fault", [None, "V01", "V03", "V28", "SYN5", "SYN6", "GREEDY"])
def test_a_planted_fault_breaks_the_law_of_the_engine(fault):
    faulty = REFERENCE.with_function("verify_tree_sampled_from_logits", from_logits(fault), "planted")
    broken = 0
    for seed, config in enumerate((CHAIN, TREE, CHAIN)):
        run = sampled_scenario(config, HashModel(4, seed, 0.9), ((1, 2),), (HALVING,), 2)
        try:
            engine_emits_the_autoregressive_law(faulty, run)
        except AssertionError:
            broken += 1
    assert bool(broken) == (fault is not None)


def test_a_wrong_distribution_of_the_model_is_named_with_both_fractions():
    def halved(hidden_states, vocab_size, seed):
        return np.zeros((len(hidden_states), vocab_size), dtype=np.float32)

    faulty = REFERENCE.with_function("hash_sampling_logits", halved, "planted")
    run = sampled_scenario(TREE, HashModel(4, 11, 0.9), ((1, 2),), (HALVING,), 1)
    with pytest.raises(AssertionError, match=r"P\[\d\] = 1/4, but should be 1/(2|8)"):
        engine_emits_the_autoregressive_law(faulty, run)


def shared_stream(seeds, seq_lens, num_draft_tokens):
    random = shared_stream.random
    return (
        random.random((len(seeds), num_draft_tokens), dtype=np.float32),
        random.random(len(seeds), dtype=np.float32),
    )


shared_stream.random = np.random.default_rng(0)


def of_the_place(seeds, seq_lens, num_draft_tokens):
    return REFERENCE.functions["generate_coins"](np.arange(len(seeds)), seq_lens, num_draft_tokens)


def without_the_seed(seeds, seq_lens, num_draft_tokens):
    return REFERENCE.functions["generate_coins"](seeds * 0, seq_lens, num_draft_tokens)


@pytest.mark.parametrize("fault", [shared_stream, of_the_place])
def test_coins_that_depend_on_neighbours_are_found(fault):
    faulty = REFERENCE.with_function("generate_coins", fault, "planted")
    with pytest.raises(AssertionError, match="output of request"):
        sampled_output_follows_its_seed(faulty, SEEDED)


def test_coins_of_a_shared_stream_tell_the_workers_apart():
    faulty = REFERENCE.with_function("generate_coins", shared_stream, "planted")
    with pytest.raises(AssertionError, match=r"output of request \d on V1"):
        both_workers_sample_alike(faulty, SEEDED)


def test_coins_without_the_seed_are_found():
    faulty = REFERENCE.with_function("generate_coins", without_the_seed, "planted")
    sampled_output_follows_its_seed(faulty, SEEDED)
    with pytest.raises(AssertionError, match="different outputs of 6 seeds = 1, but should be more than one"):
        requests_draw_different_coins(faulty, SEEDED)


def test_seeds_hold_of_the_reference():
    for is_v1 in (False, True):
        sampled_output_follows_its_seed(REFERENCE, SEEDED.having(is_v1=is_v1))
    both_workers_sample_alike(REFERENCE, SEEDED)
    requests_draw_different_coins(REFERENCE, SEEDED)


def test_runs_are_weighted_by_the_choices_that_they_take():
    third = Fraction(1, 3)
    cells = enumerate_cells([cut([third])])

    def run(watched):
        outcome = []
        for _ in range(2):
            place = watched.script[len(watched.taken)] if len(watched.taken) < len(watched.script) else 0
            watched.taken.append(place)
            watched.widths.append(2)
            watched.weight *= cells.weights[place]
            outcome.append(place)
        return tuple(outcome)

    law = law_of_runs(Completed(REFERENCE, REFERENCE), run, NOTHING)
    assert law == autoregressive(lambda before: (third, 1 - third), 2)


def test_watched_operations_leave_all_others_alone():
    watched = Watched(REFERENCE, (), NOTHING)
    seeds, lengths = np.array([3]), np.array([4])
    got = watched.call("generate_coins", seeds=seeds, seq_lens=lengths, num_draft_tokens=2)
    expected = REFERENCE.call("generate_coins", seeds=seeds, seq_lens=lengths, num_draft_tokens=2)
    assert np.array_equal(got[0], expected[0])
    assert (watched.weight, watched.taken) == (1, [])


def test_planted_walks_without_a_fault_are_those_of_the_reference():
    random = np.random.default_rng(3)
    for _ in range(50):
        probs = random.dirichlet(np.ones(3), 2).astype(np.float32)
        coins, final = random.random(2, dtype=np.float32), float(random.random(dtype=np.float32))
        links = np.array([[1, -1]]), np.array([[-1, -1]])
        tree = DraftTree(Topology.from_parents([-1, 0]), [0, 2], 1)
        walk = walk_tree(tree, Coins(coins, final), probs.__getitem__, Acceptance())
        predict, accept_index, _ = tree_sampler()(
            np.array([[0, 2]]), np.array([[0, 1]]), *links, coins[None], np.array([final]), probs[None],
            np.zeros((1, 2, 3)), np.ones(1), np.ones(1), 1,
        )  # fmt: skip
        assert [int(predict[node]) for node in accept_index[0] if node >= 0] == walk.tokens
