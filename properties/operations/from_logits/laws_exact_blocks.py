"""The exact law of chains from raw logits that are judged as a block: that of the target's filtered rows."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from specsim.conformance.backend import Backend
from specsim.properties.distribution import Coins, Outcome
from specsim.properties.laws.checks import state
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, slack_from_logits
from specsim.properties.operations.acceptance.laws_exact_blocks import SHARPEST, off_zero, require_shares_of_fronts
from specsim.properties.operations.acceptance.laws_exact_chains import (
    Play,
    require_chain_law,
    require_independent_last_tokens,
)
from specsim.properties.operations.from_logits.laws_exact_chains import playing_logits
from specsim.properties.operations.from_logits.logit_chains import BLOCK_FROM_LOGITS
from specsim.properties.strategies.logit_scenes import ChainLogitBatch, block_logit_batches


def playing_logit_blocks(backend: Backend, batch: ChainLogitBatch) -> Play:
    """Return what runs the scenes of a batch as blocks; coins for what is left of nothing are moved away from 0."""
    slack = slack_of_logit_blocks(batch)
    as_given = playing_logits(backend, batch, slack, BLOCK_FROM_LOGITS)

    def play(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        chosen = [batch.scenes[place].chain for place in places]
        moved = [off_zero(*one, slack) for one in zip(chosen, drafts, coins, strict=True)]
        return as_given(places, drafts, moved)

    return play


def slack_of_logit_blocks(batch: ChainLogitBatch) -> Fraction:
    """Return how far from edges an implementation in float32 may be asked."""
    return SHARPEST * slack_from_logits(batch.scenes[0].chain.vocab_size)


def blocks_from_logits_emit_the_targets_law(backend: Backend, batch: ChainLogitBatch) -> None:
    """Over the draft's draws and all coins each block emits the law of its own temperatures and filters."""
    slack = slack_of_logit_blocks(batch)
    chains = [scene.chain for scene in batch.scenes]
    require_chain_law(chains, playing_logit_blocks(backend, batch), slack, slack, AS_A_BLOCK)


def fronts_from_logits_are_kept_by_their_share(backend: Backend, batch: ChainLogitBatch) -> None:
    """Over the draws of later drafts, a front of drafts is kept with its share as chance; greedy requests have none."""
    for scene in batch.scenes:
        if not scene.filters.is_greedy:
            alone = replace(batch, scenes=(scene,))
            require_shares_of_fronts(scene.chain, playing_logit_blocks(backend, alone), slack_of_logit_blocks(batch))


def last_token_is_independent_of_other_coins(backend: Backend, batch: ChainLogitBatch) -> None:
    """Whatever the coins of the drafts were, the final coin alone draws the last token, from what is left or from p."""
    play = playing_logit_blocks(backend, batch)
    slack = slack_of_logit_blocks(batch)
    require_independent_last_tokens([scene.chain for scene in batch.scenes], play, slack, slack, AS_A_BLOCK)


_BLOCK = (BLOCK_FROM_LOGITS,)

PROPERTIES = (
    state("sampling_block_logits_law", blocks_from_logits_emit_the_targets_law, block_logit_batches, _BLOCK, "P02"),
    state("sampling_block_logits_law", fronts_from_logits_are_kept_by_their_share, block_logit_batches, _BLOCK, "P63"),
    state("sampling_block_logits_law", last_token_is_independent_of_other_coins, block_logit_batches, _BLOCK, "P09"),
)
