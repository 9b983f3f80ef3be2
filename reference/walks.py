"""One request's walk by chance, in float64.

A caller that wants to know how close its decisions were hands in decisions that write that down.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.contracts.logit_rows import filters_of, log_probabilities
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


def walk_block(
    drafts: Sequence[int], coins: Coins, draft_probs: Array | None, target_probs: Array, decide: Decisions = PLAIN
) -> list[int]:
    """Return the output tokens of one chain whose drafts are judged together (semantics B.9b); a draft of -1 ends it.

    Coins are asked from the last draft on: the first that says so keeps its draft and all before it.
    """
    block = Block.of(drafts, draft_probs, target_probs)
    kept = block.kept_by(coins, decide)
    return [*block.tokens[:kept], decide.draw(block.rest_after(kept), coins.final)]


@dataclass(frozen=True)
class Block:
    """The drafts of one chain that are judged together.

    Parameters
    ----------
    tokens : list of int
        The drafts before any -1.
    target, proposal : list of array
        Rows in float64: the target's of every draft and one after them, and of every draft the law that it was drawn
        from.
    shares : list of float
        The share r of every front of the drafts, that of no draft first: the chance that no less than it is kept.
    """

    tokens: list[int]
    target: list[Array]
    proposal: list[Array]
    shares: list[float]

    @classmethod
    def of(cls, drafts: Sequence[int], draft_probs: Array | None, target_probs: Array) -> "Block":
        """Return the block of a chain."""
        tokens = list(takewhile(lambda token: token >= 0, drafts))
        target = [row.astype(np.float64) for row in target_probs[: len(tokens) + 1]]
        if draft_probs is None:
            proposal = [certain(token, target_probs.shape[1]) for token in tokens]
        else:
            proposal = [row.astype(np.float64) for row in draft_probs[: len(tokens)]]
        shares = [1.0]
        for token, wanted, offered in zip(tokens, target, proposal, strict=False):
            p, q = float(wanted[token]), float(offered[token])
            shares.append(min(shares[-1] * p / q, 1.0) if q > 0 else 0.0)
        return cls(tokens, target, proposal, shares)

    def kept_by(self, coins: Coins, decide: Decisions = PLAIN) -> int:
        """Return how many drafts are kept: coins are asked from the last draft on, and the first that says so ends."""
        kept = len(self.tokens)
        while kept > 0 and not decide.is_below(float(coins.each[kept - 1]), self.chance_of(kept)):
            kept -= 1
        return kept

    def rest_after(self, kept: int) -> Array:
        """Return what the token after so many drafts is drawn from: max(r p - q, 0), after all of them p."""
        if kept == len(self.tokens):
            return self.target[kept]
        return np.maximum(self.shares[kept] * self.target[kept] - self.proposal[kept], 0.0)

    def chance_of(self, kept: int) -> float:
        """Return the bound below which a coin keeps so many drafts, where no later coin has kept more."""
        share = self.shares[kept]
        if kept == len(self.tokens) or share in (0.0, 1.0):
            return share
        rest = float(self.rest_after(kept).sum())
        return rest / (rest + 1 - share)


def certain(token: int, vocab_size: int) -> Array:
    """Return the distribution that is sure of one token."""
    one_hot = np.zeros(vocab_size)
    one_hot[token] = 1.0
    return one_hot


@dataclass(frozen=True)
class LogitChain:
    """One chain from raw logits: its drafts and coins, its rows, and the sampling parameters of both sides.

    ``draft_logits`` is None for drafts that were not drawn, and ``filters`` are top-k, top-p and min-p of the target.
    """

    drafts: Sequence[int]
    coins: Coins
    target_logits: Array
    draft_logits: Array | None
    temperature: float
    filters: tuple[int, float, float]
    draft_temperature: float

    @property
    def draft_is_drawn(self) -> bool:
        """Whether drafts are judged by a law of their own, not as certain ones."""
        return self.draft_logits is not None and self.draft_temperature > 0

    @property
    def is_filtered(self) -> bool:
        """Whether a filter may drop tokens of the target."""
        top_k, top_p, min_p = self.filters
        return top_k < self.target_logits.shape[1] or top_p < 1 or min_p > 0

    def target_law(self, place: int) -> Array:
        """Return log p of the row that follows so many drafts."""
        return log_probabilities(self.target_logits[place], self.temperature, *self.filters)

    def draft_law(self, place: int) -> Array:
        """Return log q of a draft over the target's vocabulary: 0 at a draft that was not drawn, -inf elsewhere.

        A draft's row of fewer tokens draws no other; one of more tokens has spent probability on them.
        """
        log_q = np.full(self.target_logits.shape[1], -np.inf)
        if self.draft_logits is None or not self.draft_is_drawn:
            log_q[self.drafts[place]] = 0.0
            return log_q
        law = log_probabilities(self.draft_logits[place], self.draft_temperature)[: len(log_q)]
        log_q[: len(law)] = law
        return log_q


def logit_chain(arguments: Mapping[str, Any], request: int) -> LogitChain:
    """Return the chain of one request of a ragged batch."""
    first, last = (int(offset) for offset in arguments["cu_num_drafts"][request : request + 2])
    temperature, top_k, top_p, min_p = filters_of(arguments, request)
    draft_logits = arguments["draft_logits"]
    return LogitChain(
        drafts=arguments["draft_tokens"][first:last].tolist(),
        coins=Coins(
            arguments["uniform_samples"][first:last], float(arguments["uniform_samples_for_final_sampling"][request])
        ),
        target_logits=arguments["target_logits"][first + request : last + request + 1],
        draft_logits=None if draft_logits is None else draft_logits[first:last],
        temperature=temperature,
        filters=(top_k, top_p, min_p),
        draft_temperature=float(arguments["draft_temperature"][request]),
    )


def walk_chain_from_logits(chain: LogitChain) -> list[int]:
    """Return the output tokens of one chain from raw logits (semantics B.9c); a draft of -1 ends it."""
    if chain.temperature == 0:
        return walk_chain_greedily(chain)
    tokens = list[int]()
    for place, token in enumerate(takewhile(lambda token: token >= 0, chain.drafts)):
        log_p, log_q = chain.target_law(place), chain.draft_law(place)
        if not (log_q[token] > -np.inf and log_p[token] > log_of(chain.coins.each[place]) + log_q[token]):
            return [*tokens, draw(rest_of(log_p, log_q), chain.coins.final)]
        tokens.append(token)
    return [*tokens, draw(np.exp(chain.target_law(len(tokens))), chain.coins.final)]


def walk_block_from_logits(chain: LogitChain) -> list[int]:
    """Return the output tokens of one chain from raw logits, judged as a block (semantics B.9b); a draft of -1 ends it.

    Where rounding has left nothing of max(r p - q, 0), the token after the drafts is drawn from p.
    """
    if chain.temperature == 0:
        return walk_chain_greedily(chain)
    block = block_of_logits(chain)
    kept = block.kept_by(chain.coins)
    rest = block.rest_after(kept)
    return [*block.tokens[:kept], draw(rest if rest.any() else block.target[kept], chain.coins.final)]


def block_of_logits(chain: LogitChain) -> Block:
    """Return the block of a chain from raw logits; its shares are sums of logarithms."""
    tokens = list(takewhile(lambda token: token >= 0, chain.drafts))
    target = [chain.target_law(place) for place in range(len(tokens) + 1)]
    proposal = [chain.draft_law(place) for place in range(len(tokens))]
    log_share, shares = 0.0, [1.0]
    for token, log_p, log_q in zip(tokens, target, proposal, strict=False):
        log_share = min(log_share + log_p[token] - log_q[token], 0.0) if log_q[token] > -np.inf else -np.inf
        shares.append(float(np.exp(log_share)))
    return Block(tokens, [np.exp(row) for row in target], [np.exp(row) for row in proposal], shares)


def walk_chain_greedily(chain: LogitChain) -> list[int]:
    """Return the output tokens of one chain at temperature 0: drafts as long as each is the first largest logit."""
    tokens = list[int]()
    for token, row in zip([*chain.drafts, -1], chain.target_logits, strict=True):
        best = int(np.argmax(row.astype(np.float32)))
        tokens.append(best)
        if token != best:
            break
    return tokens


def rest_of(log_p: Array, log_q: Array) -> Array:
    """Return what a rejection draws from: max(p - q, 0), or p where rounding has left nothing of that."""
    rest = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)
    return rest if rest.any() else np.exp(log_p)


def log_of(coin: float) -> float:
    """Return the logarithm of a coin, -inf of 0."""
    return float(np.log(coin, dtype=np.float64)) if coin > 0 else -np.inf
