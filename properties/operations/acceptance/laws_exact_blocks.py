"""The exact law of chains that are judged as a block: over the drafts' draws and all coins it is the target's.

The share of a front of drafts is no dyadic number, so that what is nothing may be a little elsewhere: a coin that asks
for it is moved away from 0. Edges are as sharp as the masses that they are made of.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.distribution import EVERYTHING, NOTHING, Coins, Outcome
from specsim.properties.laws.checks import require, states
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, BLOCK_SAMPLER, play_chains, shares_of_fronts, slack_of
from specsim.properties.operations.acceptance.laws_exact_chains import (
    Played,
    accepted_one_by_one,
    describe,
    laws_of_chains,
    require_chain_law,
    require_independent_last_tokens,
)
from specsim.properties.strategies.sampling_scenes import ChainScene, chain_batches, chain_scenes, drawn_chains

SHARPEST = 16
"""Masses of which an edge is made are no smaller than one in so many, but for rare scenes of inexact edges."""


def playing_blocks(backend: Backend, scenes: Sequence[ChainScene]) -> Played:
    """Return what runs scenes as blocks; coins that ask for what is left of nothing are moved away from 0."""
    slack = SHARPEST * slack_of(scenes[0].vocab_size)

    def play(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        chosen = [scenes[place] for place in places]
        return play_chains(backend, chosen, drafts, off_zero(chosen, drafts, coins, slack), BLOCK_SAMPLER)

    return Played(scenes, play, slack, slack, AS_A_BLOCK)


def off_zero(
    scenes: Sequence[ChainScene], drafts: Sequence[Outcome], coins: Sequence[Coins], slack: Fraction
) -> list[Coins]:
    """Return coins of drafts, those that ask for what is left of nothing at least ``slack`` large."""
    moved = []
    for scene, draft, rows in zip(scenes, drafts, coins, strict=True):
        asks = [share not in (NOTHING, EVERYTHING) for share in shares_of_fronts(scene, draft)[1:]]
        least = np.array([*asks, any(asks)]) * np.float32(slack)
        moved.append(np.maximum(rows, least.astype(np.float32)))
    return moved


def block_emits_the_targets_law(backend: Backend, scene: ChainScene) -> None:
    """Over the draft's draws and all coins, kept drafts and the token after them have the target's law."""
    require_chain_law(playing_blocks(backend, [scene]))


def every_block_of_a_batch_emits_its_own_law(backend: Backend, scenes: list[ChainScene]) -> None:
    """In a ragged batch each block emits the law of its own rows, padding of -1 or not."""
    require_chain_law(playing_blocks(backend, scenes))


def fronts_are_kept_by_their_share(backend: Backend, scene: ChainScene) -> None:
    """Over the draws of later drafts, a front of drafts, or one that it begins, is kept with its share as chance."""
    require_shares_of_fronts(playing_blocks(backend, [scene]))


def require_shares_of_fronts(played: Played) -> None:
    """Raise AssertionError unless every front of drafts of the only scene is kept with its share as chance."""
    (scene,) = played.scenes
    for front, (chance, kept) in kept_fronts(played).items():
        share = shares_of_fronts(scene, front)[-1]
        require(kept == chance * share, f"chance of keeping {list(front)}, {describe(scene)}", kept, chance * share)


def no_fewer_drafts_are_kept_than_one_by_one(backend: Backend, scene: ChainScene) -> None:
    """On average a block keeps no fewer drafts than acceptance token by token, on the same drafts."""
    fronts = kept_fronts(playing_blocks(backend, [scene]))
    got = sum((kept for _, kept in fronts.values()), NOTHING)
    least = sum(
        (drawn * accepted_one_by_one(scene, front, len(front)) for front, (drawn, _) in fronts.items()), NOTHING
    )
    require(got >= least, f"average of kept drafts, {describe(scene)}", got, f"{least} at least")


def kept_fronts(played: Played) -> dict[Outcome, tuple[Fraction, Fraction]]:
    """Return, of every front of the drafts, the chance that it is drawn, and that it is drawn and kept."""
    (laws,) = laws_of_chains(played)
    fronts: dict[Outcome, tuple[Fraction, Fraction]] = {}
    for draft, chance, law in laws:
        for count in range(1, len(draft) + 1):
            drawn, kept = fronts.get(draft[:count], (NOTHING, NOTHING))
            longer = sum((weight for sequence, weight in law.items() if len(sequence) > count), NOTHING)
            fronts[draft[:count]] = drawn + chance, kept + chance * longer
    return fronts


def last_token_of_a_block_is_independent_of_other_coins(backend: Backend, scene: ChainScene) -> None:
    """Whatever the coins of the drafts were, the final coin alone draws the last token, from what is left or from p."""
    require_independent_last_tokens(playing_blocks(backend, [scene]))


PROPERTIES = states(
    "sampling_block_law",
    (block_emits_the_targets_law, chain_scenes, BLOCK_SAMPLER, "P02"),
    (every_block_of_a_batch_emits_its_own_law, chain_batches, BLOCK_SAMPLER, "P02"),
    (fronts_are_kept_by_their_share, chain_scenes, BLOCK_SAMPLER, "P63"),
    (no_fewer_drafts_are_kept_than_one_by_one, drawn_chains, BLOCK_SAMPLER, "P63"),
    (last_token_of_a_block_is_independent_of_other_coins, drawn_chains, BLOCK_SAMPLER, "P09"),
)
