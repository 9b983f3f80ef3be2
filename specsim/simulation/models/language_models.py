"""Language models whose every logit is an exact integer function of the token prefix.

``greedy_decode`` is the ground truth: plain autoregressive decoding in Python integers, without a KV cache, a batch or
a draft. The forwards of the reference and of the GPU path compute the same words from tagged KV.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specsim.hashing import BROKEN, GOLDEN, MASK, digest, mix
from specsim.rejection import Reason, SpecRejection

ALWAYS = 1 << 32
NEVER = -1
TEXT_VOCABULARY = 256
TARGET_ORDERS = 5
DRAFT_ORDERS = 4


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
    """

    vocab_size: int = 64
    seed: int = 0
    agreement: float = 0.7
    num_right: int | None = None
    hot_token_id: NDArray[np.int64] | None = None
    num_target_layers: int = 2
    num_draft_layers: int = 1
    broken_depth: int | None = None

    def agreement_at(self, depth: int) -> int:
        """Return the chance, of 2**32, of the target's choice at a depth; NEVER excludes it, BROKEN is NaN."""
        if self.broken_depth is not None and depth >= self.broken_depth:
            return BROKEN
        if self.num_right is not None:
            return ALWAYS if depth <= self.num_right else NEVER
        return round(self.agreement * ALWAYS)

    def next_token(self, folds: Sequence[int], context_word: int) -> int:
        """Return the token of the largest logit."""
        del context_word
        state = digest(folds)
        hashed = [mix(state + self.seed + (token + 1) * GOLDEN) & 0x3FFFFF for token in range(self.vocab_size)]
        return max(range(self.vocab_size), key=lambda token: (hashed[token], token))


@dataclass(frozen=True)
class TextModel:
    """Byte n-gram counts of a text: the target backs off from four bytes of context, the draft from three.

    Parameters
    ----------
    target_counts : uint8 [5, bucket, 256]
        How often each byte follows each context, saturating at 255.
    draft_counts : uint8 [4, bucket, 256]
        The same for the draft.
    """

    target_counts: NDArray[np.uint8] = field(repr=False)
    draft_counts: NDArray[np.uint8] = field(repr=False)
    hot_token_id: NDArray[np.int64] | None = None
    num_target_layers: int = 2
    num_draft_layers: int = 1
    vocab_size: int = TEXT_VOCABULARY

    @classmethod
    def from_text(cls, text: bytes, num_buckets: int = 16384) -> "TextModel":
        """Count the n-grams of a text.

        Raises
        ------
        SpecRejection
            BAD_TEXT: the text is empty.
        """
        if not text:
            raise SpecRejection(
                Reason.BAD_TEXT,
                what="text",
                got="empty",
                expected="at least one byte",
                because="its n-grams are counted",
            )
        counts = count_ngrams(text, TARGET_ORDERS, num_buckets)
        counts.flags.writeable = False
        return cls(target_counts=counts, draft_counts=counts[:DRAFT_ORDERS])

    def next_token(self, folds: Sequence[int], context_word: int) -> int:
        """Return the token of the largest logit, the lowest among equals."""
        state = digest(folds)
        logits = [0] * self.vocab_size
        for order in range(len(self.target_counts)):
            tokens = context_word & ((1 << (8 * order)) - 1)
            bucket = mix(tokens + order * GOLDEN) % self.target_counts.shape[1]
            for token, count in enumerate(self.target_counts[order, bucket].tolist()):
                logits[token] += count << (8 * order)
        keyed = [(logit << 8) | (mix(state + token * GOLDEN) & 0xFF) for token, logit in enumerate(logits)]
        return max(range(self.vocab_size), key=lambda token: (keyed[token], -token))


LanguageModel = HashModel | TextModel


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


class Prefix:
    """The state of a model after a token prefix: one fold a layer, and the context word."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._length = 0
        self.folds = [0] * model.num_target_layers
        self.context_word = 0

    def append(self, token: int) -> None:
        """Add one token."""
        below = 0
        for layer in range(len(self.folds)):
            for component in (2 * layer, 2 * layer + 1):
                self.folds[layer] += digest([self._length, token, below, component])
            self.folds[layer] &= MASK
            below = self.folds[layer]
        self.context_word = ((self.context_word << 8) + token) & MASK
        self._length += 1

    def next_token(self) -> int:
        """Return the model's greedy choice."""
        return self._model.next_token(self.folds, self.context_word)


def greedy_decode(
    model: LanguageModel, prompt: Sequence[int], max_new_tokens: int, eos_token: int | None = None
) -> list[int]:
    """Decode one prompt token by token: the output that speculation must not change.

    Returns
    -------
    output : list of int
        At most ``max_new_tokens`` tokens, ending with ``eos_token`` if it occurs.
    """
    prefix = Prefix(model)
    for token in prompt:
        prefix.append(token)
    output: list[int] = []
    while len(output) < max_new_tokens:
        token = prefix.next_token()
        output.append(token)
        if token == eos_token:
            break
        prefix.append(token)
    return output
