"""One request's walk by chance, in float64, with the margin of its closest decision.

A margin says how far a coin lay from the boundary that decided, as a share of the larger of the two, or of the total
mass where a token was drawn. What an implementation rounds otherwise can only matter below the rounding of its sums.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specsim.conformance.arrays import Array
from specsim.contracts.rounding import UNDERFLOW

LEAST_THRESHOLD = 1e-9


@dataclass(frozen=True)
class Walk:
    """What became of one request.

    ``path`` holds the accepted nodes, root first; ``tokens`` the output tokens, as many; ``rejected`` the pairs of
    node and child token that were tried in vain; ``margin`` the distance of the closest decision by a coin, and
    ``single_margin`` of the closest one by ``threshold_single``, which is exact where the probabilities are given.
    """

    path: list[int]
    tokens: list[int]
    rejected: list[tuple[int, int]]
    margin: float
    single_margin: float = float("inf")


def walk_tree(
    tokens: Array,
    next_token: Array,
    next_sibling: Array,
    coins: Array,
    final_coin: float,
    row_of: Callable[[int], Array],
    thresholds: tuple[float, float],
    num_steps: int,
    strict: bool,
    skip_duplicates: bool,
) -> Walk:
    """Walk one tree; ``row_of`` returns the target's distribution after a node."""
    threshold_single, threshold_acc = thresholds[0], max(thresholds[1], LEAST_THRESHOLD)
    path, output, rejected = [0], list[int](), list[tuple[int, int]]()
    margin = single_margin = float("inf")
    row = row_of(0)
    is_stuck = False
    while len(path) <= num_steps and not is_stuck:
        last, mass, tried = path[-1], 0.0, set[int]()
        node, coin = int(next_token[last]), float(coins[last])
        is_stuck = True
        while node != -1:
            token = int(tokens[node])
            if not (skip_duplicates and token in tried):
                probability = float(row[token])
                mass += probability
                boundary = mass / threshold_acc
                is_below = coin < boundary if strict else coin <= boundary
                is_possible = probability > 0 or not strict
                if is_possible:
                    margin = min(margin, distance(coin, boundary))
                    if not is_below:
                        single_margin = min(single_margin, distance(probability, threshold_single))
                if is_possible and (is_below or probability >= threshold_single):
                    path.append(node)
                    output.append(token)
                    row = row_of(node)
                    is_stuck = False
                    break
                tried.add(token)
                rejected.append((last, token))
            node = int(next_sibling[node])
    residual = row.astype(np.float64)
    if len(path) <= num_steps:
        for node, token in rejected:
            if node == path[-1]:
                residual[token] = 0.0
    token, final_margin = draw(residual, final_coin)
    return Walk(path, [*output, token], rejected, min(margin, final_margin), single_margin)


def walk_chain(tokens: Array, coins: Array, final_coin: float, draft_probs: Array | None, target_probs: Array) -> Walk:
    """Walk one chain; a token of -1 ends it."""
    output, margin = list[int](), float("inf")
    for place, token in enumerate(tokens.tolist()):
        target = target_probs[place].astype(np.float64)
        if token < 0:
            break
        proposal = certain(token, len(target)) if draft_probs is None else draft_probs[place].astype(np.float64)
        if proposal[token] > 0:
            margin = min(margin, distance(float(coins[place]) * proposal[token], target[token]))
        if proposal[token] > 0 and coins[place] * proposal[token] < target[token]:
            output.append(token)
            continue
        token, final_margin = draw(np.maximum(target - proposal, 0.0), final_coin)
        return Walk([], [*output, token], [], min(margin, final_margin))
    token, final_margin = draw(target_probs[len(output)].astype(np.float64), final_coin)
    return Walk([], [*output, token], [], min(margin, final_margin))


def distance(one: float, other: float) -> float:
    """Return how far two numbers lie apart, as a share of the larger."""
    return abs(one - other) / max(one, other, UNDERFLOW)


def certain(token: int, vocab_size: int) -> Array:
    """Return the distribution that is sure of one token."""
    one_hot = np.zeros(vocab_size)
    one_hot[token] = 1.0
    return one_hot


def draw(weights: Array, coin: float) -> tuple[int, float]:
    """Return the first token whose prefix sum exceeds the coin's share of the total, and the margin.

    Without such a token it is the last one of positive weight, and without weight the last token of all.
    """
    prefix = np.cumsum(weights)
    total = prefix[-1]
    beyond = np.flatnonzero(prefix > coin * total)
    possible = np.flatnonzero(weights > 0)
    if not len(possible):
        return len(weights) - 1, float("inf")
    token = int(beyond[0]) if len(beyond) else int(possible[-1])
    upper = (prefix[token] - coin * total) / total if token != possible[-1] else float("inf")
    lower = (coin * total - (prefix[token] - weights[token])) / total if token != possible[0] else float("inf")
    return token, float(min(abs(upper), abs(lower)))
