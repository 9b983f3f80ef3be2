"""Requests of the tree sampler, and trials: the walk comes to a node where one rule alone decides who is accepted.

Chances and coins of a trial are multiples of a power of 2, so that every sum of them is exact in float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from specsim.host.sampling import LARGEST_COIN
from specsim.properties.strategies.arrays import Array, Bulk
from specsim.properties.strategies.distributions import Chance, coins_of, moved, target_rows
from specsim.properties.strategies.trees import Tree

TRIALS = ("coin", "single", "either", "twins", "nothing", "rejected")
"""What decides a trial: a coin on the mass of some children or beside it; a chance that equals the single threshold;
which of the two thresholds is below 1; whether the mass of equal siblings counts once; whether no chance is enough for
a single threshold of 0; nothing, as all are rejected."""
USUAL_TRIALS = (None,) * (2 * len(TRIALS)) + TRIALS
TABLE_TRIALS = (None, None, "coin", "coin", "single", "either", "twins", "nothing")
STAR_TRIALS = (None, "rejected", "rejected", "coin", "twins")
"""Among any requests, in the table of boundaries, and for stars of many siblings; None is no trial."""
OF_THRESHOLDS = ("single", "either", "nothing")
"""Trials in which a threshold is below 1."""
LOWER = 0.5
"""The threshold below 1 where one is."""


@dataclass(frozen=True)
class SampledRequest:
    """One request of the tree sampler: its tree, the target's rows, the coins of nodes, the final one, thresholds."""

    tree: Tree
    rows: Array
    coins: Array
    final_coin: float
    thresholds: tuple[float, float]


@dataclass(frozen=True)
class Masses:
    """Running masses of the children of a node, those of equal siblings counted once, or again each time."""

    chances: Array
    once: Array
    again: Array


def sampled_request(
    tree: Tree, chance: Chance, vocab: int, num_steps: int, scale: float, trials: Sequence[str | None]
) -> SampledRequest:
    """Return a request whose rows and coins are made as its chance says, each row with a sum of ``scale``.

    Beside coins on edges a single threshold below 1 is the probability of some child. Its trial is one of ``trials``.
    """
    rows = target_rows(tree, chance, vocab) * np.float32(scale)
    coins, final_coin = coins_of(tree, rows, chance)
    single, accumulated = chance.thresholds
    if chance.coins == "edges" and single < 1 and len(tree.tokens) > 1:
        child = chance.source.integer(1, len(tree.tokens) - 1)
        single = float(rows[tree.topology.parents[child], tree.tokens[child]])
    request = SampledRequest(tree, rows, coins, float(final_coin), (single, accumulated))
    kind = trials[chance.source.integer(0, len(trials) - 1)]
    return request if kind is None else put_on_trial(request, kind, num_steps, scale, chance.source)


def put_on_trial(request: SampledRequest, kind: str, num_steps: int, scale: float, source: Bulk) -> SampledRequest:
    """Return the request with one of its nodes on trial; as it is if no child is ever tried.

    Parameters
    ----------
    request : SampledRequest
        What does not concern the trial stays.
    kind : str
        One of ``TRIALS``.
    num_steps : int
        The longest path.
    scale : float
        What each row adds up to, a power of 2.
    source : Bulk
        Of every choice.
    """
    tree, rows, coins = request.tree, request.rows.copy(), request.coins.copy()
    path = _path_to_trial(tree, num_steps, 2 if kind == "twins" else 1, source)
    if not path:
        return request
    node = path[-1]
    for above, child in pairwise(path):
        rows[above] = 0
        rows[above, tree.tokens[child]] = scale
        coins[above] *= np.float32(scale)
    tree, twin = _with_twins(tree, node, source) if kind == "twins" else (tree, 0)
    tried = tree.tokens[list(tree.topology.children[node])]
    lacks_first = kind == "nothing" or (kind == "coin" and source.integer(0, 3) == 3)
    rows[node] = _row(tried, rows.shape[1], scale, lacks_first, source)
    coins[node], thresholds = _decide(kind, _masses(tried, rows[node]), twin, scale, source)
    return SampledRequest(tree, rows, coins, request.final_coin, thresholds)


def _path_to_trial(tree: Tree, num_steps: int, fewest: int, source: Bulk) -> list[int]:
    """Return the path to the root or to another node that has children, with so many where there is one.

    A walk along rows that are sure of one token can take the path: no node of it follows an equal sibling.
    """
    children, tokens = tree.topology.children, tree.tokens.tolist()
    paths = [[0]] if num_steps else []
    for path in paths:
        seen = set[int]()
        for child in children[path[-1]] if len(path) < num_steps else []:
            if tokens[child] not in seen and children[child]:
                paths.append([*path, child])
            seen.add(tokens[child])
    usable = [path for path in paths if len(children[path[-1]]) >= fewest] or [path for path in paths if children[0]]
    if not usable:
        return []
    return usable[0] if source.integer(0, 1) == 0 else usable[source.integer(0, len(usable) - 1)]


def _with_twins(tree: Tree, node: int, source: Bulk) -> tuple[Tree, int]:
    """Return the tree with two equal siblings below a node, if it has two children, and the place of the second."""
    below, tokens = tree.topology.children[node], tree.tokens.copy()
    if len(below) < 2:
        return tree, 0
    second = source.integer(1, len(below) - 1)
    tokens[below[second]] = tokens[below[source.integer(0, second - 1)]]
    return replace(tree, tokens=tokens), second


def _row(tokens: Array, vocab: int, scale: float, lacks_first: bool, source: Bulk) -> Array:
    """Return a row in which each of some tokens has a small chance, one or two parts, and another token the rest.

    If it lacks the first of them, that one has no chance.
    """
    known = np.array(list(dict.fromkeys(tokens.tolist())))
    parts = source.integers(len(known), 1, 2)
    parts[0] *= not lacks_first
    row = np.zeros(vocab, dtype=np.float32)
    row[known] = parts * part_of(len(tokens), scale)
    others = np.setdiff1d(np.arange(vocab), known)
    row[others[source.integer(0, len(others) - 1)] if len(others) else known[-1]] += scale - row.sum()
    return row


def part_of(count: int, scale: float) -> float:
    """Return a chance of which two for each of so many children add up to a quarter at most."""
    return scale / (8 << (count - 1).bit_length())


def _masses(tokens: Array, row: Array) -> Masses:
    chances = row[tokens].astype(np.float64)
    is_first = np.isin(np.arange(len(tokens)), np.unique(tokens, return_index=True)[1])
    return Masses(chances, np.cumsum(np.where(is_first, chances, 0)), np.cumsum(chances))


def _decide(kind: str, masses: Masses, twin: int, scale: float, source: Bulk) -> tuple[float, tuple[float, float]]:
    """Return the coin and the thresholds under which one rule decides."""
    last = len(masses.chances) - 1
    place = last if source.integer(0, 1) else source.integer(0, last)
    thresholds, coin = (1.0, 1.0), (masses.again[-1] + scale) / 2
    if kind == "coin":
        coin = (masses.again if source.integer(0, 3) == 3 else masses.once)[place]
    elif kind == "single":
        thresholds = (float(masses.chances.max()), 1.0)
    elif kind == "nothing":
        thresholds = (0.0, 1.0)
    elif kind == "either":
        thresholds = (LOWER, 1.0) if source.integer(0, 1) else (1.0, LOWER)
        coin = masses.once[place] * 1.5
    elif kind == "twins":
        coin = (masses.once[twin] + masses.again[twin]) / 2
    direction = (0, 0, 0, -1, 1)[source.integer(0, 4)] if kind == "coin" else 0
    exact = np.array([min(coin, LARGEST_COIN)], dtype=np.float32)
    return float(moved(exact, np.array([direction]))[0]), thresholds
