"""The exact law of chains from raw logits that are judged as a block: that of the target's filtered rows."""

from collections.abc import Sequence
from dataclasses import replace

from specsim.conformance.backend import Backend
from specsim.properties.distribution import Coins, Outcome
from specsim.properties.laws.checks import states
from specsim.properties.laws.sampling_cells import AS_A_BLOCK, slack_from_logits
from specsim.properties.operations.acceptance.laws_exact_blocks import SHARPEST, off_zero, require_shares_of_fronts
from specsim.properties.operations.acceptance.laws_exact_chains import (
    Played,
    require_chain_law,
    require_independent_last_tokens,
)
from specsim.properties.operations.from_logits.laws_exact_chains import playing_logits
from specsim.properties.operations.from_logits.logit_chains import BLOCK_FROM_LOGITS
from specsim.properties.strategies.logit_scenes import ChainLogitBatch, block_logit_batches


def playing_logit_blocks(backend: Backend, batch: ChainLogitBatch) -> Played:
    """Return what runs the scenes of a batch as blocks; coins for what is left of nothing are moved away from 0."""
    slack = SHARPEST * slack_from_logits(batch.scenes[0].chain.vocab_size)
    as_given = playing_logits(backend, batch, slack, BLOCK_FROM_LOGITS)

    def play(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        chosen = [as_given.scenes[place] for place in places]
        return as_given.play(places, drafts, off_zero(chosen, drafts, coins, slack))

    return replace(as_given, play=play, rule=AS_A_BLOCK)


def blocks_from_logits_emit_the_targets_law(backend: Backend, batch: ChainLogitBatch) -> None:
    """Over the draft's draws and all coins each block emits the law of its own temperatures and filters."""
    require_chain_law(playing_logit_blocks(backend, batch))


def fronts_from_logits_are_kept_by_their_share(backend: Backend, batch: ChainLogitBatch) -> None:
    """Over the draws of later drafts, a front of drafts is kept with its share as chance; greedy requests have none."""
    for scene in batch.scenes:
        if not scene.filters.is_greedy:
            require_shares_of_fronts(playing_logit_blocks(backend, replace(batch, scenes=(scene,))))


def last_token_is_independent_of_other_coins(backend: Backend, batch: ChainLogitBatch) -> None:
    """Whatever the coins of the drafts were, the final coin alone draws the last token, from what is left or from p."""
    require_independent_last_tokens(playing_logit_blocks(backend, batch))


PROPERTIES = states(
    "sampling_block_logits_law",
    (blocks_from_logits_emit_the_targets_law, block_logit_batches, BLOCK_FROM_LOGITS, "P02"),
    (fronts_from_logits_are_kept_by_their_share, block_logit_batches, BLOCK_FROM_LOGITS, "P63"),
    (last_token_is_independent_of_other_coins, block_logit_batches, BLOCK_FROM_LOGITS, "P09"),
)
