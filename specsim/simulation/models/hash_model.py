"""A language model whose logits are hashes of the token prefix, with a draft that is right as often as one likes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.hashing import BROKEN, DEEPEST_SAMPLE, GOLDEN, digest, mix_array
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.pool_kinds import PoolKind

ALWAYS = 1 << 32
NEVER = -1


@dataclass(frozen=True)
class HashModel:
    """Tie-free logits from a hash of the prefix.

    Parameters
    ----------
    vocab_size : int
        2 to 1024.
    seed : int
        Which model, 0 to 2**32-1.
    agreement : float
        Chance that the draft's first choice is the target's; 1.0 is a perfect draft.
    num_right : int or None
        The draft is right at the first so many depths and never after; 0 is a hostile draft. Replaces ``agreement``.
    broken_depth : int or None
        From this depth on every probability of the draft is NaN.
    hot_token_id : int64 [draft_vocab] or None
        The draft proposes only these ids.
    target_pool, draft_pool : PoolKind
        What their KV is stored in; it changes no logit.
    window : int
        Positions that one more layer sees of a target whose pool is of kind SWA.
    kv_sharing : tuple of int or None
        The target's layer that each layer of the draft reads, which then writes no KV; None for a draft with its own.
    draft_source : DraftSource
        What the draft consumes; of ``TOKENS`` it never sees the first token, and the target does not listen to it; of
        ``LAYERS`` each of its layers is a small model that proposes the token at the depth of its number.
    reads_all_layers : bool
        Whether a draft that consumes hidden states does so of every layer of the target, side by side.
    """

    vocab_size: int = 64
    seed: int = 0
    agreement: float = 0.7
    num_right: int | None = None
    hot_token_id: NDArray[np.int64] | None = None
    num_target_layers: int = 2
    num_draft_layers: int = 1
    broken_depth: int | None = None
    target_pool: PoolKind = PoolKind.MHA
    draft_pool: PoolKind = PoolKind.MHA
    window: int = 8
    kv_sharing: tuple[int, ...] | None = None
    draft_source: DraftSource = DraftSource.HIDDEN
    reads_all_layers: bool = False

    def agreement_at(self, depth: int) -> int:
        """Return the chance, of 2**32, of the target's choice at a depth; NEVER excludes it, BROKEN is NaN."""
        if self.broken_depth is not None and depth >= self.broken_depth:
            return BROKEN
        if self.num_right is not None:
            return ALWAYS if depth <= self.num_right else NEVER
        return round(self.agreement * ALWAYS)

    def next_logits(self, folds: Sequence[int], context_word: int) -> list[int]:
        """Return one logit a token, no two alike."""
        del context_word
        token = np.arange(self.vocab_size)
        hashed = mix_array(digest(folds) + self.seed + (token + 1) * GOLDEN) & 0x3FFFFF
        logits: list[int] = ((hashed << 10) | token).tolist()
        return logits

    def next_sampling_logits(self, folds: Sequence[int]) -> list[int]:
        """Return what the model is sampled from: minus the place of each token, as far as places differ."""
        ranked = sorted(enumerate(self.next_logits(folds, 0)), key=lambda pair: -pair[1])
        deepest = min(self.vocab_size - 1, DEEPEST_SAMPLE)
        places = {token: min(place, deepest) for place, (token, _) in enumerate(ranked, 1)}
        return [-places[token] for token in range(self.vocab_size)]
