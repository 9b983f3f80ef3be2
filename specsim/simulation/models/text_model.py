"""A language model of real text: byte n-gram counts, a higher order for the target than for the draft."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specsim.hashing import GOLDEN, digest, mix, mix_array
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.models.description import DraftSource
from specsim.simulation.models.pool_kinds import PoolKind

TEXT_VOCABULARY = 256
TARGET_ORDERS = 5
DRAFT_ORDERS = 4


@dataclass(frozen=True)
class TextModel:
    """Byte n-gram counts of a text: the target backs off from four bytes of context, the draft from three.

    Parameters
    ----------
    target_counts : uint8 [5, bucket, 256]
        How often each byte follows each context, saturating at 255.
    draft_counts : uint8 [4, bucket, 256]
        The same for the draft.
    target_pool, draft_pool : PoolKind
        What their KV is stored in; it changes no logit.
    kv_sharing : tuple of int or None
        As of a ``HashModel``.
    draft_source : DraftSource
        What the draft consumes; of ``TOKENS`` it never sees the first token, and the target does not listen to it.
    reads_all_layers : bool
        Whether a draft that consumes hidden states does so of every layer of the target, side by side.
    """

    target_counts: NDArray[np.uint8] = field(repr=False)
    draft_counts: NDArray[np.uint8] = field(repr=False)
    hot_token_id: NDArray[np.int64] | None = None
    num_target_layers: int = 2
    num_draft_layers: int = 1
    vocab_size: int = TEXT_VOCABULARY
    target_pool: PoolKind = PoolKind.MHA
    draft_pool: PoolKind = PoolKind.MHA
    window: int = 8
    kv_sharing: tuple[int, ...] | None = None
    draft_source: DraftSource = DraftSource.HIDDEN
    reads_all_layers: bool = False

    @classmethod
    def from_text(cls, text: bytes, num_buckets: int = 16384) -> "TextModel":
        """Count the n-grams of a text.

        Raises
        ------
        SpecRejection
            BAD_TEXT: the text is empty.
        """
        if not text:
            raise SpecRejection(Reason.BAD_TEXT, "text", "empty", "at least one byte", "its n-grams are counted")
        counts = count_ngrams(text, TARGET_ORDERS, num_buckets)
        counts.flags.writeable = False
        return cls(target_counts=counts, draft_counts=counts[:DRAFT_ORDERS])

    def next_logits(self, folds: Sequence[int], context_word: int) -> list[int]:
        """Return one logit a token; the lowest id among equals is the choice."""
        logits = np.zeros(self.vocab_size, dtype=np.int64)
        for order in range(len(self.target_counts)):
            tokens = context_word & ((1 << (8 * order)) - 1)
            bucket = mix(tokens + order * GOLDEN) % self.target_counts.shape[1]
            logits += self.target_counts[order, bucket].astype(np.int64) << (8 * order)
        tie_breakers = mix_array(digest(folds) + np.arange(self.vocab_size) * GOLDEN) & 0xFF
        following: list[int] = ((logits << 8) | tie_breakers).tolist()
        return following


def count_ngrams(text: bytes, num_orders: int, num_buckets: int) -> NDArray[np.uint8]:
    """Count which byte follows each hashed context of 0 … ``num_orders-1`` bytes; newest byte in the low bits."""
    tokens = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    counts = np.zeros((num_orders, num_buckets, TEXT_VOCABULARY), dtype=np.uint8)
    for order in range(num_orders):
        context = np.zeros(max(len(tokens) - order, 0), dtype=np.int64)
        for distance in range(order):
            newest = order - 1 - distance
            context |= tokens[newest : newest + len(context)] << (8 * distance)
        keys, place = np.unique(context, return_inverse=True)
        buckets = np.array([mix(int(key) + order * GOLDEN) % num_buckets for key in keys], dtype=np.int64)
        cells = buckets[place.reshape(-1)] * TEXT_VOCABULARY + tokens[order:]
        total = np.bincount(cells, minlength=num_buckets * TEXT_VOCABULARY)
        counts[order] = np.minimum(total, 255).reshape(num_buckets, TEXT_VOCABULARY)
    return counts


def default_text() -> bytes:
    """Return the sources of a few modules of Python's standard library, which lie wherever Python does."""
    library = Path(argparse.__file__).parent
    names = ("argparse.py", "ast.py", "dataclasses.py", "functools.py", "inspect.py", "typing.py")
    return b"\n".join((library / name).read_bytes() for name in names)
