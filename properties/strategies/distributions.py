"""Values of sampling: vocabularies, rows of probabilities and logits, coins, filters and thresholds.

Rows of an exact kind are multiples of a power of 2 with a sum of 1: every sum of them is exact in float32, so that a
coin may lie right on a boundary.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.host.sampling import COIN_BITS, COIN_STEP, LARGEST_COIN
from specsim.properties.strategies.arrays import Array, Bulk, bulk, mostly
from specsim.properties.strategies.limits import limits, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.trees import Tree

BOUNDARY_VOCABULARIES = (9, 31, 32, 33, 64, 65, 128, 257)
LARGE_VOCABULARIES = (1000, 1025, 2049)
EXACT_ROWS = ("coarse", "dyadic", "one-hot", "zero tail", "even")
ROWS = (*EXACT_ROWS, "equal", "softmax", "peaked")
GUIDES = ("free", "path", "children", "first child", "barren")
COINS = ("uniform", "uniform", "low", "edges", "extreme")
TABLE_COINS = ("edges", "edges", "extreme", "uniform")
"""Coins of the table of boundaries."""
_TOKENS_OF_A_ROW = {"coarse": 8, "dyadic": 4096, "zero tail": 64}


@dataclass(frozen=True)
class Chance:
    """How the rows and coins of one request are made, its thresholds, and a source of everything else."""

    rows: str
    guide: str
    coins: str
    thresholds: tuple[float, float]
    source: Bulk

    @property
    def is_exact(self) -> bool:
        """Whether a coin may lie on a boundary: every sum is exact."""
        return self.rows in EXACT_ROWS


@made_once
def chances(is_table: bool = False) -> SearchStrategy[Chance]:
    """Return a strategy of the ways in which one request meets chance.

    For the table of boundaries rows are exact, coins lie on boundaries, and thresholds are often below 1.
    """
    rows, coins = (EXACT_ROWS, TABLE_COINS) if is_table else (ROWS, COINS)
    drawn = (st.sampled_from(rows), st.sampled_from(GUIDES), st.sampled_from(coins))
    return st.builds(Chance, *drawn, thresholds(2 if is_table else 5), bulk())


@made_once
def thresholds(one_in: int = 5) -> SearchStrategy[tuple[float, float]]:
    """Return a strategy of the two thresholds of a request; most often both are 1."""
    if not limits().takes_thresholds:
        return st.just((1.0, 1.0))
    shares = st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0))
    return mostly(st.just((1.0, 1.0)), st.tuples(shares, shares), one_in)


@made_once
def vocab_sizes(least: int = 1) -> SearchStrategy[int]:
    """Return a strategy of vocabularies: small ones, and now and then one at the end of a word or a tile."""
    some = mostly(
        st.integers(least, 8),
        mostly(st.sampled_from(BOUNDARY_VOCABULARIES), st.sampled_from(LARGE_VOCABULARIES), one_in=6),
        one_in=4,
    )
    return sized("vocab", some)


def probability_row(kind: str, vocab: int, source: Bulk) -> Array:
    """Return one float32 row of probabilities."""
    if kind == "one-hot":
        return np.asarray(np.arange(vocab) == source.integer(0, vocab - 1)).astype(np.float32)
    if kind == "even":
        count = 1 << (vocab.bit_length() - 1)
        return np.asarray(np.arange(vocab) < count).astype(np.float32) / np.float32(count)
    if kind == "equal":
        return np.full(vocab, 1 / vocab, dtype=np.float32)
    if kind in _TOKENS_OF_A_ROW:
        count = _TOKENS_OF_A_ROW[kind]
        last = (vocab - 1) // 2 if kind == "zero tail" else vocab - 1
        drawn = np.bincount(source.integers(count, 0, last), minlength=vocab)
        return (drawn / count).astype(np.float32)
    logits = source.integers(vocab, -(2**20), 2**20) / 2.0**18
    weights = np.exp(logits * (4 if kind == "peaked" else 1))
    return np.asarray(weights / weights.sum(), dtype=np.float32)


def target_rows(tree: Tree, chance: Chance, vocab: int) -> Array:
    """Return the target's rows, float32 [node, vocab], with the mass on the children that the guide prefers.

    The guides leave the rows alone, favour one child of every node (a random one, all of them, or the first), or take
    the mass of all children away.
    """
    rows = np.stack([probability_row(chance.rows, vocab, chance.source) for _ in tree.tokens])
    for node, below in enumerate(tree.children):
        if not below or chance.guide == "free":
            continue
        tokens = tree.tokens[below]
        if chance.guide == "barren":
            others = np.setdiff1d(np.arange(vocab), tokens)
            if len(others):
                rows[node, others[-1]] += rows[node, np.unique(tokens)].sum()
                rows[node, tokens] = 0
            continue
        share = (0.5, 0.875, 1.0)[chance.source.integer(0, 2)]
        first = tokens[0] if chance.guide == "first child" else tokens[chance.source.integer(0, len(tokens) - 1)]
        favoured = np.zeros(vocab, dtype=np.float32)
        if chance.guide == "children":
            favoured[np.unique(tokens)[: 2 ** int(np.log2(len(np.unique(tokens))))]] = 1
        else:
            favoured[first] = 1
        rows[node] = (rows[node] * (1 - share) + favoured / favoured.sum() * share).astype(np.float32)
    return np.asarray(np.minimum(rows, np.float32(1)))


def coins_of(tree: Tree, rows: Array, chance: Chance) -> tuple[Array, Array]:
    """Return the coins of the nodes, float32 [node], and the final one.

    On exact rows a coin may be the running mass up to some child, or its neighbour; the final coin a prefix sum of a
    row whose children are left out, or its neighbour.
    """
    source, count = chance.source, len(tree.tokens)
    coins = uniform_coins(source, count + 1)
    if chance.coins == "extreme":
        coins = np.array((0.0, COIN_STEP, LARGEST_COIN))[source.integers(count + 1, 0, 2)]
    elif chance.coins == "low":
        coins[:-1] /= 16
    elif chance.coins == "edges" and chance.is_exact:
        below = tree.children
        for node in range(count):
            if below[node]:
                tried = below[node][: source.integer(1, len(below[node]))]
                coins[node] = float(rows[node, tree.tokens[tried]].sum(dtype=np.float64))
        node = source.integer(0, count - 1)
        residual = rows[node].astype(np.float64)
        residual[tree.tokens[below[node]]] = 0
        prefix = np.cumsum(residual if residual.sum() > 0 else rows[node])
        coins[-1] = prefix[source.integer(0, len(prefix) - 1)] / prefix[-1]
    single = coins.astype(np.float32)
    if chance.coins == "edges":
        single = moved(single, source.integers(count + 1, -1, 1))
    return single[:-1], single[-1]


def moved(values: Array, directions: Array) -> Array:
    """Return float32 coins or their lower or upper neighbours, kept inside [0, 1)."""
    towards = np.where(directions > 0, np.float32(2), np.float32(-1))
    neighbours = np.where(directions == 0, values, np.nextafter(values, towards.astype(np.float32)))
    return np.clip(neighbours, 0, LARGEST_COIN).astype(np.float32)


def uniform_coins(source: Bulk, count: int) -> Array:
    """Return multiples of 2**-24 below 1, in float64."""
    return np.asarray(source.integers(count, 0, 2**COIN_BITS - 1) * COIN_STEP)


def with_a_coin_of_0(coins: Array, source: Bulk) -> Array:
    """Return the coins of a chain and its final one, with 0 in the place of that of a draft, if it has drafts."""
    changed = coins.copy()
    if len(coins) > 1:
        changed[source.integer(0, len(coins) - 2)] = 0
    return changed
