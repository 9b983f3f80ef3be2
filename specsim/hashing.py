"""Exact 32-bit hashing in Python integers: the arithmetic of the tagged-KV models.

Every value lies in [0, 2**32). NumPy repeats these formulas on words of 32 bits, which wrap by themselves, Triton on
64-bit integers with a mask after each product, so that all three agree bit for bit. The finaliser is C. Wellons'
``lowbias32``.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

MASK = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
DRAFT_GOLDEN = 0x85EBCA6B
BROKEN = -2
COIN_SALT = 0x51ED270B
TOKEN_BITS = 10
PROBABILITY_BITS = 24
BEST_PROBABILITY = (1 << PROBABILITY_BITS) - (1 << TOKEN_BITS)
"""Numerator of the draft model's first choice; the last bits of a numerator are the token id, so that no two tie."""

FEW_ROWS = 6
"""Rows that are folded faster in Python's integers, one after another, than by NumPy, however long they are."""

DEEPEST_SAMPLE = 20
"""The least likely token of a row that is sampled weighs ``2**-DEEPEST_SAMPLE``."""

_FIRST_FACTOR, _SECOND_FACTOR = 0x7FEB352D, 0x846CA68B
_SIXTEEN, _FIFTEEN = np.array(16, dtype=np.uint32), np.array(15, dtype=np.uint32)
_FIRST, _SECOND = np.array(_FIRST_FACTOR, dtype=np.uint32), np.array(_SECOND_FACTOR, dtype=np.uint32)
"""Numbers of the finaliser as NumPy takes them: one of Python's is turned into an array each time."""


def mix(word: int) -> int:
    """Scramble one word."""
    word &= MASK
    word ^= word >> 16
    word = (word * _FIRST_FACTOR) & MASK
    word ^= word >> 15
    word = (word * _SECOND_FACTOR) & MASK
    return word ^ (word >> 16)


def digest(words: Iterable[int]) -> int:
    """Fold words into one, in order: the digest of a tag, of hidden words, of a prefix."""
    state = GOLDEN
    for word in words:
        state = mix(state + word)
    return state


def mix_array(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Scramble every word of an array."""
    mixed: NDArray[np.int64] = _scrambled(words.reshape(-1).astype(np.uint32)).astype(np.int64)
    return mixed.reshape(words.shape)


def digest_rows(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Fold the last axis of an array into one word an entry."""
    if 0 < rows.size <= FEW_ROWS * rows.shape[-1]:
        few = [digest(row) for row in rows.reshape(-1, rows.shape[-1]).tolist()]
        return np.array(few, dtype=np.int64).reshape(rows.shape[:-1])
    words = rows.astype(np.uint32)
    state = np.full(rows.shape[:-1], GOLDEN, dtype=np.uint32)
    for place in range(rows.shape[-1]):
        state += words[..., place]
        _scrambled(state)
    digests: NDArray[np.int64] = state.astype(np.int64)
    return digests


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Scramble words in place: in 32 bits, sums and products wrap by themselves."""
    words ^= words >> _SIXTEEN
    words *= _FIRST
    words ^= words >> _FIFTEEN
    words *= _SECOND
    words ^= words >> _SIXTEEN
    return words
