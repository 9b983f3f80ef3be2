"""The law of samplers that draw their own coins, by chi-square: how often they emit each sequence."""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend
from specsim.operations.without_coins import SUFFIX
from specsim.properties.distribution import EVERYTHING, Distribution, Outcome
from specsim.properties.laws.sampling_chain_law import describe as describe_chain
from specsim.properties.laws.sampling_chain_law import last_shares
from specsim.properties.laws.sampling_law import describe as describe_tree
from specsim.properties.laws.support.checks import state
from specsim.properties.laws.support.frequencies import Inconclusive, detectable_effect, sequential_law
from specsim.properties.laws.support.sampling_cells import (
    CHAIN_SAMPLER,
    TREE_SAMPLER,
    chain_case,
    emitted_along_paths,
    emitted_in_rows,
    proposal_row,
    tree_case,
    walk_law,
)
from specsim.properties.strategies.sampling_scenes import ChainScene, TreeScene, drawn_chains, tree_scenes

ALPHA = 1e-9
"""Chance of one false alarm a scene, over all looks."""

EFFECT = 0.15
"""Cohen's w that has to be noticed."""

SAMPLER_OF_TREES = TREE_SAMPLER + SUFFIX
SAMPLER_OF_CHAINS = CHAIN_SAMPLER + SUFFIX
BATCH = 1024
"""Requests of one call."""

Play = Callable[[int, int], list[Outcome]]


def tree_frequencies_fit_the_targets_law(backend: Backend, case: tuple[TreeScene, int]) -> None:
    """Drawing its own coins, a tree sampler emits each sequence as often as the target does, as far as counts tell."""
    scene, seed = case

    def play(count: int, number: int) -> list[Outcome]:
        arguments = {**tree_case([scene], [count]), "seed": number}
        return emitted_along_paths(backend.run(SAMPLER_OF_TREES, arguments).outputs)

    require_frequencies(backend, f"frequencies of {describe_tree(scene)}", play, walk_law(scene), seed)


def chain_frequencies_fit_the_targets_law(backend: Backend, case: tuple[ChainScene, int]) -> None:
    """Drawing its own coins, a chain sampler emits each sequence as often as the exact rule, as far as counts tell."""
    scene, seed = case
    drafts = scene.drafts()
    chances = np.array([float(chance) for _, chance in drafts])

    def play(count: int, number: int) -> list[Outcome]:
        random = np.random.default_rng([seed, number])
        drawn = [drafts[place][0] for place in random.choice(len(drafts), size=count, p=chances / chances.sum())]
        arguments = {**chain_case([scene] * count, drawn, [1] * count), "seed": number}
        return emitted_in_rows(backend.run(SAMPLER_OF_CHAINS, arguments).outputs)

    require_frequencies(backend, f"frequencies of {describe_chain(scene)}", play, emission_law(scene), seed)


def emission_law(scene: ChainScene) -> Distribution:
    """Return the exact law of what a chain emits in one verify, over the draws of its draft."""
    law: Distribution = {}
    for draft, chance in scene.drafts():
        passed = chance
        for count in range(len(draft) + 1):
            accepted = EVERYTHING
            if count < len(draft):
                proposal = proposal_row(scene, draft, count)[draft[count]]
                accepted = min(scene.target[draft[:count]][draft[count]] / proposal, EVERYTHING)
            ends = passed if count == len(draft) else passed * (EVERYTHING - accepted)
            if ends:
                for token, share in last_shares(scene, draft, count):
                    sequence = (*draft[:count], token)
                    law[sequence] = law.get(sequence, Fraction(0)) + ends * share
            passed *= accepted
    return law


def require_frequencies(
    backend: Backend, what: str, play: Play, expected: Mapping[Outcome, Fraction], seed: int
) -> None:
    """Raise AssertionError if the counts contradict the law, and Inconclusive if there are too few to tell."""

    def sample(number: int, look: int) -> Counter[Outcome]:
        counts: Counter[Outcome] = Counter()
        for start in range(0, number, BATCH):
            counts.update(play(min(BATCH, number - start), (seed + 977 * look + start) % 2**32))
        return counts

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


def seeded_trees() -> SearchStrategy[tuple[TreeScene, int]]:
    """Return a strategy of trees and seeds."""
    return st.tuples(tree_scenes(), st.integers(0, 2**32 - 1))


def seeded_chains() -> SearchStrategy[tuple[ChainScene, int]]:
    """Return a strategy of chains whose drafts were drawn, and seeds."""
    return st.tuples(drawn_chains(), st.integers(0, 2**32 - 1))


PROPERTIES = (
    state("sampling_frequency_law", tree_frequencies_fit_the_targets_law, seeded_trees, (SAMPLER_OF_TREES,), "P04"),
    state("sampling_frequency_law", chain_frequencies_fit_the_targets_law, seeded_chains, (SAMPLER_OF_CHAINS,), "P04"),
)
