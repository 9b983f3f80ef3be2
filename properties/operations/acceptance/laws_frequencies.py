"""The law of samplers that draw their own coins, by chi-square: how often they emit each sequence."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.operations.without_coins import SUFFIX
from specsim.properties.distribution import EVERYTHING, NOTHING, Distribution, Outcome, Row, autoregressive
from specsim.properties.laws.checks import require, states
from specsim.properties.laws.frequencies import Inconclusive, detectable_effect, sequential_law
from specsim.properties.laws.sampling_cells import (
    BLOCK_SAMPLER,
    CHAIN_SAMPLER,
    TREE_SAMPLER,
    chain_case,
    children_by_token,
    emitted_along_paths,
    emitted_in_rows,
    proposal_row,
    shares_of_fronts,
    tree_case,
    walk_law,
)
from specsim.properties.operations.acceptance.laws_exact_chains import describe as describe_chain
from specsim.properties.operations.acceptance.laws_exact_chains import last_shares
from specsim.properties.operations.acceptance.laws_exact_trees import describe as describe_tree
from specsim.properties.strategies.limits import limits
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene, drawn_chains, tree_scenes

ALPHA = 1e-9
"""Chance of one false alarm a scene, over all looks."""

EFFECT = 0.15
"""Cohen's w that has to be noticed."""

SAMPLER_OF_TREES = TREE_SAMPLER + SUFFIX
SAMPLER_OF_CHAINS = CHAIN_SAMPLER + SUFFIX
SAMPLER_OF_BLOCKS = BLOCK_SAMPLER + SUFFIX
BATCH = 256
"""Requests of one call, which may take no longer than any other: an interpreted program takes milliseconds."""

NUM_VERIFIES = 2048
"""Verifies whose accepted drafts are counted."""

Play = Callable[[int, int], list[Outcome]]


def tree_frequencies_fit_the_targets_law(backend: Backend, case: tuple[TreeScene, int]) -> None:
    """Drawing its own coins, a tree sampler emits each sequence as often as the target does, as far as counts tell.

    However few drafts it accepts: where it stops at a child, what the target would emit after it is drawn here.
    """
    scene, seed = case

    def play(count: int, number: int) -> list[Outcome]:
        random = np.random.default_rng([seed, number, 1])
        return [_walked_on(scene, emitted, random) for emitted in play_tree(backend, scene, count, number)]

    require_frequencies(backend, f"frequencies of {describe_tree(scene)}", play, walk_law(scene), seed)


def chain_frequencies_fit_the_targets_law(backend: Backend, case: tuple[ChainScene, int]) -> None:
    """Drawing its own coins, a chain sampler emits each sequence as often as the target does, as far as counts tell.

    Whichever drafts it accepts, one by one or a block at once: after a shorter output the target's tokens are drawn
    here, so that all outputs have one length.
    """
    require_chain_frequencies(SAMPLER_OF_CHAINS, backend, *case)


def block_frequencies_fit_the_targets_law(backend: Backend, case: tuple[ChainScene, int]) -> None:
    """Drawing its own coins, a sampler of blocks emits each sequence as often as the target does, as counts tell."""
    require_chain_frequencies(SAMPLER_OF_BLOCKS, backend, *case)


def require_chain_frequencies(sampler: str, backend: Backend, scene: ChainScene, seed: int) -> None:
    """Raise AssertionError if what a sampler of chains emits for many seeds contradicts the target's law."""
    horizon = scene.num_drafts + 1

    def play(count: int, number: int) -> list[Outcome]:
        random = np.random.default_rng([seed, number, 1])
        emitted = play_chain(backend, scene, seed, count, number, sampler)
        return [_drawn_on(scene, one, horizon, random) for one in emitted]

    expected = autoregressive(scene.target.__getitem__, horizon)
    require_frequencies(backend, f"frequencies of {describe_chain(scene)}", play, expected, seed)


def trees_accept_no_fewer_drafts_than_token_by_token(backend: Backend, case: tuple[TreeScene, int]) -> None:
    """On average a verify of a tree accepts as many drafts as the target chooses children in a row."""
    scene, seed = case
    play, expected = partial(play_tree, backend, scene), mean_drafts(walk_law(scene))
    require_acceptance(backend, describe_tree(scene), play, seed, expected, scene.num_steps)


def chains_accept_no_fewer_drafts_than_token_by_token(backend: Backend, case: tuple[ChainScene, int]) -> None:
    """On average a verify of a chain accepts as many drafts as one that accepts them token by token, or more.

    Of an implementation that says so no more are wanted than equal a draw of the target's own.
    """
    scene, seed = case
    expected = mean_drafts(emission_law(scene, by_equal_draws=limits().accepts_equal_draws))
    play = partial(play_chain, backend, scene, seed)
    require_acceptance(backend, describe_chain(scene), play, seed, expected, scene.num_drafts)


def blocks_keep_no_fewer_drafts_than_their_shares(backend: Backend, case: tuple[ChainScene, int]) -> None:
    """On average a verify of a block keeps each front of the drafts with its share, or more often."""
    scene, seed = case
    kept = [chance * sum(shares_of_fronts(scene, draft)[1:], NOTHING) for draft, chance in scene.drafts()]
    play = partial(play_chain, backend, scene, seed, sampler=SAMPLER_OF_BLOCKS)
    require_acceptance(backend, describe_chain(scene), play, seed, sum(kept, NOTHING), scene.num_drafts)


def play_tree(backend: Backend, scene: TreeScene, count: int, number: int) -> list[Outcome]:
    """Return what so many verifies of a tree emit with one seed."""
    return emitted_along_paths(backend.run(SAMPLER_OF_TREES, {**tree_case([scene], [count]), "seed": number}).outputs)


def play_chain(
    backend: Backend, scene: ChainScene, seed: int, count: int, number: int, sampler: str = SAMPLER_OF_CHAINS
) -> list[Outcome]:
    """Return what so many verifies of a chain emit with one seed, each of a draft of its own."""
    drafts = scene.drafts()
    chances = np.array([float(chance) for _, chance in drafts])
    random = np.random.default_rng([seed, number])
    drawn = [drafts[place][0] for place in random.choice(len(drafts), size=count, p=chances / chances.sum())]
    arguments = {**chain_case([scene] * count, drawn, [1] * count), "seed": number}
    return emitted_in_rows(backend.run(sampler, arguments).outputs)


def _walked_on(scene: TreeScene, emitted: Outcome, random: np.random.Generator) -> Outcome:
    """Return an output of a tree that goes on while its last token is a child of where the walk is."""
    node = 0
    for place, token in enumerate(emitted):
        children = children_by_token(scene, node) if place < scene.num_steps else {}
        if token not in children:
            return emitted
        node = children[token]
    if not emitted:
        return emitted
    return _walked_on(scene, (*emitted, _token_of(scene.rows[node], random)), random)


def _drawn_on(scene: ChainScene, emitted: Outcome, horizon: int, random: np.random.Generator) -> Outcome:
    """Return an output with the target's own tokens after it, up to a length."""
    while len(emitted) < horizon and emitted in scene.target:
        emitted = (*emitted, _token_of(scene.target[emitted], random))
    return emitted


def _token_of(row: Row, random: np.random.Generator) -> int:
    return int(random.choice(len(row), p=[float(share) for share in row]))


def mean_drafts(law: Distribution) -> Fraction:
    """Return the average of accepted drafts: an output has one token more."""
    return sum((share * (len(outcome) - 1) for outcome, share in law.items()), NOTHING)


def require_acceptance(backend: Backend, what: str, play: Play, seed: int, expected: Fraction, most: int) -> None:
    """Raise AssertionError if fewer drafts are accepted than a rule does, by more than chance: one alarm in a billion.

    Parameters
    ----------
    expected : Fraction
        The average of the drafts that the rule accepts.
    most : int
        The drafts that can be accepted.
    """
    count, wanted = min(NUM_VERIFIES, backend.max_samples or NUM_VERIFIES), float(expected)
    got = sum(len(outcome) - 1 for outcome in played(play, count, seed)) / count
    # NOTE: by Hoeffding's inequality, whatever the law of the counts, which lie between 0 and the most.
    slack = most * math.sqrt(-math.log(ALPHA) / (2 * count))
    least = f"at least {wanted:.3f} but for {slack:.3f} by chance"
    require(got >= wanted - slack, f"accepted drafts a verify, {what}, over {count} verifies", round(got, 3), least)


def played(play: Play, number: int, seed: int) -> list[Outcome]:
    """Return so many outcomes, a batch a call, each batch with a seed of its own."""
    starts = range(0, number, BATCH)
    return [one for start in starts for one in play(min(BATCH, number - start), (seed + start) % 2**32)]


def emission_law(scene: ChainScene, *, by_equal_draws: bool = False) -> Distribution:
    """Return the exact law of what a chain emits in one verify, over the draws of its draft.

    Drafts are accepted token by token, or if they equal a draw of the target's own.
    """
    law: Distribution = {}
    for draft, chance in scene.drafts():
        passed = chance
        for count in range(len(draft) + 1):
            accepted, certain = EVERYTHING, replace(scene, certain=draft) if by_equal_draws else scene
            if count < len(draft):
                proposal = proposal_row(certain, draft, count)[draft[count]]
                accepted = min(scene.target[draft[:count]][draft[count]] / proposal, EVERYTHING)
            ends = passed if count == len(draft) else passed * (EVERYTHING - accepted)
            if ends:
                for token, share in last_shares(certain, draft, count):
                    sequence = (*draft[:count], token)
                    law[sequence] = law.get(sequence, Fraction(0)) + ends * share
            passed *= accepted
    return law


def require_frequencies(
    backend: Backend, what: str, play: Play, expected: Mapping[Outcome, Fraction], seed: int
) -> None:
    """Raise AssertionError if the counts contradict the law, and Inconclusive if there are too few to tell."""

    def sample(number: int, look: int) -> Counter[Outcome]:
        return Counter(played(play, number, seed + 977 * look))

    found = sequential_law(sample, expected, alpha=ALPHA, effect=EFFECT, most_samples=backend.max_samples)
    if found.verdict == "differs":
        raise AssertionError(
            f"{what}: chi-square = {found.statistic:.1f}, p = {found.p_value:.1e} over {found.sample_size} samples, "
            f"but should be above {ALPHA:.0e}"
        )
    if found.verdict == "inconclusive":
        least = detectable_effect(found.sample_size, max(len(expected) - 1, 1), alpha=ALPHA)
        raise Inconclusive(
            f"{what}: {found.sample_size} samples notice w = {EFFECT} with chance {found.power:.3f}, "
            f"and are sure of w = {least:.2f} only"
        )


def seeded_trees() -> st.SearchStrategy[tuple[TreeScene, int]]:
    """Return a strategy of trees and seeds."""
    return st.tuples(tree_scenes(), st.integers(0, 2**32 - 1))


def seeded_chains() -> st.SearchStrategy[tuple[ChainScene, int]]:
    """Return a strategy of chains whose drafts were drawn, and seeds."""
    return st.tuples(drawn_chains(), st.integers(0, 2**32 - 1))


PROPERTIES = states(
    "sampling_frequency_law",
    (tree_frequencies_fit_the_targets_law, seeded_trees, SAMPLER_OF_TREES, "P04"),
    (chain_frequencies_fit_the_targets_law, seeded_chains, SAMPLER_OF_CHAINS, "P04"),
    (block_frequencies_fit_the_targets_law, seeded_chains, SAMPLER_OF_BLOCKS, "P04"),
    (trees_accept_no_fewer_drafts_than_token_by_token, seeded_trees, SAMPLER_OF_TREES, "P63"),
    (chains_accept_no_fewer_drafts_than_token_by_token, seeded_chains, SAMPLER_OF_CHAINS, "P63"),
    (blocks_keep_no_fewer_drafts_than_their_shares, seeded_chains, SAMPLER_OF_BLOCKS, "P63"),
)
