"""What each new token sees of a pool, and how it is folded into one word a token.

A forward adds up the digests of all entries that a token sees, in any order. Digests are computed once a slot, however
many tokens see it, and the prefix of a request is added up once for all of its tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import MASK, digest_rows

CONTEXT_TOKENS = 4
"""Tokens in a context word."""

ROWS_AT_ONCE = 64
"""Tokens of a request whose context words are computed together: they look at few positions besides their own."""

Digests = Callable[[int], Array]
"""From a layer to the digests of its entries, K and V added up, int64 [slot]; those that no one sees may be missing."""


class Sight(Protocol):
    """Which slots each new token sees."""

    def slots(self) -> Array:
        """Return every slot that some token sees, perhaps several times."""

    def fold(self, digests: Array) -> Array:
        """Return int64 [token]: the sum over what each token sees of int64 [slot]."""


@dataclass(frozen=True)
class OwnKeys:
    """Tokens that see the prefix of their request, and of its new tokens those that a mask or causality allows.

    Parameters
    ----------
    keys : sequence of int32 [key]
        The slots of each request; its new tokens are the last, and see nothing where they are more than those.
    widths : sequence of int
        New tokens of each request.
    tree_mask : bool [request, node, node] or None
        Which new tokens see which; None where they are causal.
    """

    keys: Sequence[Array]
    widths: Sequence[int]
    tree_mask: Array | None

    def slots(self) -> Array:
        """Return every slot that some token sees, perhaps several times."""
        return np.concatenate([np.zeros(0, dtype=np.int32), *self.keys])

    def fold(self, digests: Array) -> Array:
        """Return int64 [token]: the sum over what each token sees of int64 [slot]."""
        folds = [np.zeros(0, dtype=np.int64)]
        for request, (keys, width) in enumerate(zip(self.keys, self.widths, strict=True)):
            words, num_prefix = digests[keys], len(keys) - width
            prefix, new = np.split(words, [max(num_prefix, 0)])
            before = np.zeros(max(-num_prefix, 0), dtype=np.int64)
            folds.append(np.concatenate([before, prefix.sum() + self._sums_of_new(request, new)]))
        return np.concatenate(folds) & MASK

    def context_words(self, entries: Array, positions: Array) -> Array:
        """Return int64 [token]: the tokens at most three positions before each token, newest in the low byte.

        Parameters
        ----------
        entries : int64 [slot, 4]
            A buffer of tags; whatever visible entry claims a position counts for it.
        positions : int64 [token]
            Position of each new token.
        """
        words = np.zeros(len(positions), dtype=np.int64)
        end = 0
        for request, (keys, width) in enumerate(zip(self.keys, self.widths, strict=True)):
            start, end = end, end + width
            found, tokens = entries[keys, 0], entries[keys, 1]
            for first in range(0, width, ROWS_AT_ONCE):
                rows = np.arange(first, min(first + ROWS_AT_ONCE, width))
                own = positions[start + rows]
                is_near = (found > own.min() - CONTEXT_TOKENS) & (found <= own.max())
                near = np.flatnonzero(is_near)
                distance = own[:, None] - found[near]
                is_seen = self._sees(request, rows, near - (len(keys) - width))
                is_seen &= (distance >= 0) & (distance < CONTEXT_TOKENS)
                shifted = tokens[near] << (8 * np.where(is_seen, distance, 0))
                words[start + rows] = np.where(is_seen, shifted, 0).sum(axis=1)
        return words & MASK

    def _sums_of_new(self, request: int, new: Array) -> Array:
        sums: Array = np.cumsum(new)
        if self.tree_mask is not None:
            sums = np.where(self.tree_mask[request], new, 0).sum(axis=1)
        return sums

    def _sees(self, request: int, rows: Array, places: Array) -> Array:
        """Return bool [row, place]; the new tokens have places from 0, the prefix has negative ones."""
        is_seen: Array = places <= rows[:, None]
        if self.tree_mask is not None:
            is_seen = (places < 0) | self.tree_mask[request][rows[:, None], np.maximum(places, 0)]
        return is_seen


@dataclass(frozen=True)
class ListedSlots:
    """Tokens that each see a list of slots: token t sees ``kv_indices[kv_indptr[t]:kv_indptr[t+1]]``."""

    kv_indices: Array
    kv_indptr: Array

    def slots(self) -> Array:
        """Return every slot that some token sees, perhaps several times."""
        return self.kv_indices[: self.kv_indptr[-1]]

    def fold(self, digests: Array) -> Array:
        """Return int64 [token]: the sum over what each token sees of int64 [slot]."""
        before = np.zeros(self.kv_indptr[-1] + 1, dtype=np.int64)
        np.cumsum(digests[self.slots()], out=before[1:])
        return np.diff(before[self.kv_indptr]) & MASK


def own_keys(
    page_table: Array, cache_seqlens: Array, cu_seqlens_q: Array, tree_mask: Array | None, page_size: int
) -> OwnKeys:
    """Return what new tokens see that are the last keys of their requests."""
    keys = []
    for request, length in enumerate(cache_seqlens.tolist()):
        position = np.arange(length)
        keys.append(page_table[request, position // page_size] * page_size + position % page_size)
    widths = np.diff(cu_seqlens_q).tolist()
    if tree_mask is not None:
        tree_mask = tree_mask.reshape(len(keys), *(widths[:1] * 2))
    return OwnKeys(keys, widths, tree_mask)


def read_digests(kv_buffers: Sequence[Array], sight: Sight) -> Digests:
    """Return digests that are computed from the entries of everything that is seen, and kept by no one."""
    is_seen = np.zeros(len(kv_buffers[0]), dtype=np.bool_)
    is_seen[sight.slots()] = True
    seen = np.flatnonzero(is_seen)

    def digests(layer: int) -> Array:
        words = np.zeros(len(is_seen), dtype=np.int64)
        for buffer in kv_buffers[2 * layer : 2 * layer + 2]:
            words[seen] += digest_rows(buffer[seen])
        return words

    return digests
