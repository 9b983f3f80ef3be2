"""One request's walk by chance, in float64.

A caller that wants to know how close its decisions were hands in decisions that write that down.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from specsim.conformance.arrays import Array
from specsim.host.sampling import LEAST_THRESHOLD
from specsim.topology import Topology


@dataclass(frozen=True)
class Walk:
    """What became of one request.

    ``path`` holds the accepted nodes, root first; ``tokens`` the output tokens, as many; ``rejected`` the pairs of
    node and child token that were tried in vain.
    """

    path: list[int]
    tokens: list[int]
    rejected: list[tuple[int, int]]


@dataclass(frozen=True)
class Coins:
    """The coin of each node or draft, and the one of the last token."""

    each: Array
    final: float


def draw(weights: Array, coin: float) -> int:
    """Return the first token whose prefix sum exceeds the coin's share of the total.

    Without such a token it is the last one of positive weight, and without weight the last token of all.
    """
    prefix = np.cumsum(weights)
    beyond = np.flatnonzero(prefix > coin * prefix[-1])
    possible = np.flatnonzero(weights > 0)
    return int([*beyond[:1], *possible[-1:], len(weights) - 1][0])


@dataclass(frozen=True)
class Decisions:
    """How a walk decides: whether a coin lies below a boundary, a probability reaches a threshold, what is drawn."""

    is_below: Callable[[float, float], bool] = operator.lt
    is_enough: Callable[[float, float], bool] = operator.ge
    draw: Callable[[Array, float], int] = draw


PLAIN = Decisions()


@dataclass(frozen=True)
class Acceptance:
    """When a draft is accepted; both thresholds at 1 and strictness leave the target's law as it is."""

    threshold_single: float = 1.0
    threshold_acc: float = 1.0
    strict: bool = True

    def accepts(self, coin: float, mass: float, probability: float, decide: Decisions) -> bool:
        """Return whether a draft is accepted; ``mass`` is what has been tried at its parent, itself included."""
        boundary = mass / max(self.threshold_acc, LEAST_THRESHOLD)
        if self.strict and probability == 0:
            return False
        is_below = decide.is_below(coin, boundary) if self.strict else not decide.is_below(boundary, coin)
        return is_below or decide.is_enough(probability, self.threshold_single)


@dataclass(frozen=True)
class DraftTree:
    """The drafts of one request, its longest path, and whether a token that was rejected is passed over."""

    topology: Topology
    tokens: Sequence[int]
    num_steps: int
    skip_duplicates: bool = True

    def drafts_after(self, node: int) -> list[tuple[int, int]]:
        """Return the children of a node in the order in which they are tried, each with its token."""
        drafts = [(child, int(self.tokens[child])) for child in self.topology.children[node]]
        if not self.skip_duplicates:
            return drafts
        first = {token: child for child, token in reversed(drafts)}
        return [(child, token) for child, token in drafts if first[token] == child]


def walk_tree(
    tree: DraftTree, coins: Coins, row_of: Callable[[int], Array], acceptance: Acceptance, decide: Decisions = PLAIN
) -> Walk:
    """Walk one tree (semantics B.8); ``row_of`` returns the target's distribution after a node."""
    path, tokens, rejected = [0], list[int](), list[tuple[int, int]]()
    row, is_stuck = row_of(0), False
    while len(path) <= tree.num_steps and not is_stuck:
        node, mass, is_stuck = path[-1], 0.0, True
        for child, token in tree.drafts_after(node):
            mass += float(row[token])
            if acceptance.accepts(float(coins.each[node]), mass, float(row[token]), decide):
                path, tokens, row, is_stuck = [*path, child], [*tokens, token], row_of(child), False
                break
            rejected.append((node, token))
    rest = row.astype(np.float64)
    rest[[token for node, token in rejected if node == path[-1]]] = 0.0
    return Walk(path, [*tokens, decide.draw(rest, coins.final)], rejected)


def walk_chain(
    drafts: Sequence[int], coins: Coins, draft_probs: Array | None, target_probs: Array, decide: Decisions = PLAIN
) -> list[int]:
    """Return the output tokens of one chain (semantics B.9); a draft of -1 ends it."""
    tokens = list[int]()
    for place, token in enumerate(takewhile(lambda token: token >= 0, drafts)):
        target = target_probs[place].astype(np.float64)
        proposal = certain(token, len(target)) if draft_probs is None else draft_probs[place].astype(np.float64)
        if not (proposal[token] > 0 and decide.is_below(float(coins.each[place]) * proposal[token], target[token])):
            return [*tokens, decide.draw(np.maximum(target - proposal, 0.0), coins.final)]
        tokens.append(token)
    return [*tokens, decide.draw(target_probs[len(tokens)].astype(np.float64), coins.final)]


def certain(token: int, vocab_size: int) -> Array:
    """Return the distribution that is sure of one token."""
    one_hot = np.zeros(vocab_size)
    one_hot[token] = 1.0
    return one_hot
