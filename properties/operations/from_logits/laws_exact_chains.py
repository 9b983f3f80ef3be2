"""The exact law of chains from raw logits: over all drafts and coins it is that of the target's filtered rows."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.distribution import Coins, Outcome
from specsim.properties.laws.checks import Array, Case, states
from specsim.properties.laws.sampling_cells import emitted_in_rows, slack_from_logits, split, tiled
from specsim.properties.operations.acceptance.chains import FINAL
from specsim.properties.operations.acceptance.laws_exact_chains import (
    Played,
    require_chain_law,
    require_independent_last_tokens,
)
from specsim.properties.operations.from_logits.laws_exact_trees import filter_arguments, logit_array
from specsim.properties.operations.from_logits.logit_chains import CHAIN_FROM_LOGITS
from specsim.properties.strategies.logit_scenes import (
    HALVING_TEMPERATURE,
    UNLIMITED,
    ChainLogitBatch,
    ChainLogitScene,
    chain_logit_batches,
)

_NEUTRAL = {"top_k": UNLIMITED, "top_p": 1, "min_p": 0}
"""What keeps every token."""


def playing_logits(
    backend: Backend, batch: ChainLogitBatch, slack: Fraction | None = None, sampler: str = CHAIN_FROM_LOGITS
) -> Played:
    """Return what runs the scenes of a batch from their logits.

    Where p and q are equal, rounding may leave a token a little, which a final coin of 0 would draw: such a coin is
    moved away from 0, as others are from edges, by ``slack``, by default that of logits.
    """
    chains = [scene.chain for scene in batch.scenes]
    slack = slack_from_logits(chains[0].vocab_size) if slack is None else slack

    def play(places: Sequence[int], drafts: Sequence[Outcome], coins: Sequence[Coins]) -> list[list[Outcome]]:
        case = logit_chain_case(batch, [batch.scenes[place] for place in places], drafts, coins)
        case[FINAL] = np.maximum(case[FINAL], np.float32(slack))
        return split(emitted_in_rows(backend.run(sampler, case).outputs), [len(rows) for rows in coins])

    return Played(chains, play, slack, slack)


def logit_chain_case(
    batch: ChainLogitBatch, scenes: Sequence[ChainLogitScene], drafts: Sequence[Outcome], coins: Sequence[Coins]
) -> Case:
    """Return the arguments of a ragged batch in which each draft occurs once a row of its coins."""
    counts = [len(rows) for rows in coins]
    padding = [scene.chain.num_padding for scene in scenes]
    tokens = [[*draft, *([-1] * count)] for draft, count in zip(drafts, padding, strict=True)]
    lengths = [len(one) for one in tokens]
    target, draft = (
        tiled([rows_of(scene, drafted) for scene, drafted in zip(scenes, drafts, strict=True)], counts)
        for rows_of in (target_rows, partial(draft_rows, width=batch.draft_vocab))
    )
    padded = [np.pad(rows[:, :-1], ((0, 0), (0, count))) for rows, count in zip(coins, padding, strict=True)]
    filters = filter_arguments([scene.filters for scene in scenes], counts)
    draft_scales = [one.draft_scale if one.chain.certain is None else 0 for one in scenes]
    draft_temperature = np.array(draft_scales, dtype=np.float32) * np.float32(HALVING_TEMPERATURE)
    return {
        "draft_tokens": tiled([np.array(one, dtype=np.int64) for one in tokens], counts),
        "cu_num_drafts": np.concatenate([[0], np.cumsum(np.repeat(lengths, counts))]).astype(np.int32),
        "uniform_samples": np.concatenate([rows.reshape(-1) for rows in padded]).astype(np.float32),
        FINAL: np.concatenate([rows[:, -1] for rows in coins]),
        "draft_logits": None if batch.is_certain else _as(draft, batch.is_half[1]),
        "target_logits": _as(target, batch.is_half[0]),
        "temperature": filters["temperature"],
        **{name: _or_none(filters[name], neutral) for name, neutral in _NEUTRAL.items()},
        "draft_temperature": np.repeat(draft_temperature, counts),
        "max_num_drafts": max(lengths),
    }


def target_rows(scene: ChainLogitScene, draft: Outcome) -> Array:
    """Return the target's logits along a draft, and after each entry of padding those of its end once more."""
    prefixes = [draft[:place] for place in range(len(draft) + 1)] + [draft] * scene.chain.num_padding
    return logit_array([scene.target_logits[prefix] for prefix in prefixes])


def draft_rows(scene: ChainLogitScene, draft: Outcome, width: int) -> Array:
    """Return the draft's logits along a draft; NaN where no walk reads them."""
    if scene.chain.certain is not None:
        return np.full((len(draft) + scene.chain.num_padding, width), np.nan, dtype=np.float32)
    rows = logit_array([scene.draft_logits[draft[:place]] for place in range(len(draft))]).reshape(-1, width)
    return np.concatenate([rows, np.full((scene.chain.num_padding, width), np.nan, dtype=np.float32)])


def _as(logits: Array, is_half: bool) -> Array:
    return logits.astype(ml_dtypes.bfloat16) if is_half else logits


def _or_none(values: Array, neutral: float) -> Array | None:
    """Return a filter, or None where it keeps everything for every request."""
    return None if (values == neutral).all() else values


def chains_from_logits_emit_the_targets_law(backend: Backend, batch: ChainLogitBatch) -> None:
    """Over the draft's draws and all coins each chain emits the law of its own temperatures and filters."""
    require_chain_law(playing_logits(backend, batch))


def last_token_is_independent_of_other_coins(backend: Backend, batch: ChainLogitBatch) -> None:
    """Whatever the coins of the drafts were, the final coin alone draws the last token, from max(p - q, 0) or p."""
    require_independent_last_tokens(playing_logits(backend, batch))


PROPERTIES = states(
    "sampling_chain_logits_law",
    (chains_from_logits_emit_the_targets_law, chain_logit_batches, CHAIN_FROM_LOGITS, "P02"),
    (last_token_is_independent_of_other_coins, chain_logit_batches, CHAIN_FROM_LOGITS, "P09"),
)
