"""The exact law of chains that are judged as a block: over the drafts' draws and all coins it is the target's.

The share of a front of drafts is no dyadic number, so that what is nothing may be a little elsewhere: a coin that asks
for it is moved away from 0. Edges are as sharp as the masses that they are made of.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.distribution import EVERYTHING, NOTHING, Coins, Outcome
from specsim.properties.laws.checks import require, state
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, BLOCK_SAMPLER, play_chains, shares_of_fronts, slack_of
from specsim.properties.operations.acceptance.laws_exact_chains import (
    Play,
    accepted_one_by_one,
    describe,
    laws_of_chains,
    require_chain_law,
    require_independent_last_tokens,
)
from specsim.properties.strategies.sampling_scenes import ChainScene, chain_batches, chain_scenes, drawn_chains

SHARPEST = 16
"""Masses of which an edge is made are no smaller than one in so many, but for rare scenes of inexact edges."""


def playing_blocks(backend: Backend, scenes: Sequence[ChainScene]) -> Play:
    """Return what runs scenes as blocks; coins that ask for what is left of nothing are moved away from 0."""

    def play(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        chosen = [scenes[place] for place in places]
        least = slack_of_blocks(scenes[0].vocab_size)
        moved = [off_zero(*one, least) for one in zip(chosen, drafts, coins, strict=True)]
        return play_chains(backend, chosen, drafts, moved, BLOCK_SAMPLER)

    return play


def off_zero(scene: ChainScene, draft: Outcome, coins: Coins, slack: Fraction) -> Coins:
    """Return coins of a draft, those that ask for what is left of nothing at least ``slack`` large."""
    asks = [share not in (NOTHING, EVERYTHING) for share in shares_of_fronts(scene, draft)[1:]]
    least = np.array([*asks, any(asks)]) * np.float32(slack)
    return np.maximum(coins, least.astype(np.float32))


def slack_of_blocks(vocab_size: int) -> Fraction:
    """Return how far from edges an implementation in float32 may be asked."""
    return SHARPEST * slack_of(vocab_size)


def block_emits_the_targets_law(backend: Backend, scene: ChainScene) -> None:
    """Over the draft's draws and all coins, kept drafts and the token after them have the target's law."""
    slack = slack_of_blocks(scene.vocab_size)
    require_chain_law([scene], playing_blocks(backend, [scene]), slack, slack, AS_A_BLOCK)


def every_block_of_a_batch_emits_its_own_law(backend: Backend, scenes: list[ChainScene]) -> None:
    """In a ragged batch each block emits the law of its own rows, padding of -1 or not."""
    slack = slack_of_blocks(scenes[0].vocab_size)
    require_chain_law(scenes, playing_blocks(backend, scenes), slack, slack, AS_A_BLOCK)


def fronts_are_kept_by_their_share(backend: Backend, scene: ChainScene) -> None:
    """Over the draws of later drafts, a front of drafts, or one that it begins, is kept with its share as chance."""
    require_shares_of_fronts(scene, playing_blocks(backend, [scene]), slack_of_blocks(scene.vocab_size))


def require_shares_of_fronts(scene: ChainScene, play: Play, slack: Fraction) -> None:
    """Raise AssertionError unless every front of drafts is kept with its share as chance; ``play`` has one scene."""
    for front, (chance, kept) in kept_fronts(scene, play, slack).items():
        share = shares_of_fronts(scene, front)[-1]
        require(kept == chance * share, f"chance of keeping {list(front)}, {describe(scene)}", kept, chance * share)


def no_fewer_drafts_are_kept_than_one_by_one(backend: Backend, scene: ChainScene) -> None:
    """On average a block keeps no fewer drafts than acceptance token by token, on the same drafts."""
    fronts = kept_fronts(scene, playing_blocks(backend, [scene]), slack_of_blocks(scene.vocab_size))
    got = sum((kept for _, kept in fronts.values()), NOTHING)
    pairs = [(front, chance * accepted_one_by_one(scene, front, len(front))) for front, (chance, _) in fronts.items()]
    least = sum((accepted for _, accepted in pairs), NOTHING)
    require(got >= least, f"average of kept drafts, {describe(scene)}", got, f"{least} at least")


def kept_fronts(scene: ChainScene, play: Play, slack: Fraction) -> dict[Outcome, tuple[Fraction, Fraction]]:
    """Return, of every front of the drafts, the chance that it is drawn, and that it is drawn and kept."""
    (laws,) = laws_of_chains([scene], play, slack, slack, AS_A_BLOCK)
    fronts: dict[Outcome, tuple[Fraction, Fraction]] = {}
    for draft, chance, law in laws:
        for count in range(1, len(draft) + 1):
            drawn, kept = fronts.get(draft[:count], (NOTHING, NOTHING))
            longer = sum((weight for sequence, weight in law.items() if len(sequence) > count), NOTHING)
            fronts[draft[:count]] = drawn + chance, kept + chance * longer
    return fronts


def last_token_of_a_block_is_independent_of_other_coins(backend: Backend, scene: ChainScene) -> None:
    """Whatever the coins of the drafts were, the final coin alone draws the last token, from what is left or from p."""
    slack = slack_of_blocks(scene.vocab_size)
    require_independent_last_tokens([scene], playing_blocks(backend, [scene]), slack, rule=AS_A_BLOCK)


_BLOCK = (BLOCK_SAMPLER,)

PROPERTIES = (
    state("sampling_block_law", block_emits_the_targets_law, chain_scenes, _BLOCK, "P02"),
    state("sampling_block_law", every_block_of_a_batch_emits_its_own_law, chain_batches, _BLOCK, "P02"),
    state("sampling_block_law", fronts_are_kept_by_their_share, chain_scenes, _BLOCK, "P63"),
    state("sampling_block_law", no_fewer_drafts_are_kept_than_one_by_one, drawn_chains, _BLOCK, "P63"),
    state("sampling_block_law", last_token_of_a_block_is_independent_of_other_coins, drawn_chains, _BLOCK, "P09"),
)
