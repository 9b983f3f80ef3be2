"""What a sampler has to decide on exact rows, worked out without walking: masses as prefix sums, in float64.

Where every entry of a row is a multiple of 2**-12 and a coin has 24 bits, sums and products of float64 are exact. An
implementation in float32 rounds the product of a coin and a total; only where that product is no float32 and lies close
to a boundary is the decision left open.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specsim.properties.laws.checks import Array, Case
from specsim.properties.laws.links import children_by_links
from specsim.properties.operations.acceptance.strategy_chains import chances_of_fronts, shares_of_fronts

# NOTE: restated from semantics B.8 and B.9, not imported from the reference: a law says what is right by itself.
LEAST_THRESHOLD = 1e-9
COIN_STEP = 2.0**-24
_CLEAR = 2.0**-18


@dataclass(frozen=True)
class Decided:
    """The accepted nodes, root first; the output tokens; the rejected pairs of node and token; whether all is exact."""

    path: list[int]
    tokens: list[int]
    rejected: set[tuple[int, int]]
    is_exact: bool


def decide_tree(case: Case, request: int) -> Decided:
    """Return what becomes of one request of a tree sampler."""
    tokens, rows = case["candidates"][request], case["target_probs"][request].astype(np.float64)
    below = children_by_links(case["retrieve_next_token"][request], case["retrieve_next_sibling"][request])
    single = float(case["threshold_single"][request])
    share = max(float(case["threshold_acc"][request]), LEAST_THRESHOLD)
    path, output, rejected, is_exact = [0], list[int](), set[tuple[int, int]](), True
    while len(path) <= case["num_steps"]:
        node = path[-1]
        children = below[node]
        if case["skip_duplicates"]:
            children = [c for place, c in enumerate(children) if tokens[c] not in tokens[children[:place]]]
        chances = rows[node, tokens[children]]
        bound = np.cumsum(chances) / share
        coin = float(case["uniform_samples"][request, node])
        is_below = (coin < bound) & (chances > 0) if case["strict"] else coin <= bound
        is_large = (chances >= single) & ((chances > 0) | (not case["strict"]))
        accepted = np.flatnonzero(is_below | is_large)
        last = int(accepted[0]) if len(accepted) else len(children)
        is_exact &= bool((is_float32(bound) | is_clear(coin, bound))[: last + 1].all())
        rejected |= {(node, int(tokens[child])) for child in children[:last]}
        if not len(accepted):
            break
        path.append(children[last])
        output.append(int(tokens[children[last]]))
    rest = rows[path[-1]].copy()
    if len(path) <= case["num_steps"]:
        rest[[token for node, token in rejected if node == path[-1]]] = 0
    token, is_sure = drawn(rest, float(case["uniform_samples_for_final_sampling"][request]))
    return Decided(path, [*output, token], rejected, is_exact and is_sure)


def decide_chain(case: Case, request: int) -> Decided:
    """Return what becomes of one request of a chain sampler; its path counts the accepted drafts."""
    tokens, target, proposal = chain_of(case, request)
    first, place = int(case["cu_num_drafts"][request]), np.arange(len(tokens))
    wanted, offered = target[place, tokens], proposal[place, tokens]
    bound = case["uniform_samples"][first : first + len(tokens)].astype(np.float64) * offered
    rejected = np.flatnonzero(~((bound < wanted) & (offered > 0)))
    count = int(rejected[0]) if len(rejected) else len(tokens)
    is_exact = bool((is_float32(bound) | is_clear(wanted, bound))[: count + 1].all())
    rest = np.maximum(target[count] - proposal[count], 0.0) if len(rejected) else target[count]
    token, is_sure = drawn(rest, float(case["uniform_samples_for_final_sampling"][request]))
    return Decided(list(range(count + 1)), [*tokens[:count].tolist(), token], set(), is_exact and is_sure)


def decide_block(case: Case, request: int) -> Decided:
    """Return what becomes of one request of a sampler that judges the drafts of a chain together.

    A coin is compared with s / (s + 1 - r), which is as sure as coin * (s + 1 - r) and s are apart. Shares that float32
    holds, and all before them, round nothing; of others something may be left where nothing is.
    """
    tokens, target, proposal = chain_of(case, request)
    first, final = int(case["cu_num_drafts"][request]), float(case["uniform_samples_for_final_sampling"][request])
    shares, chances = shares_of_fronts(tokens, target, proposal), chances_of_fronts(tokens, target, proposal)
    coins = case["uniform_samples"][first : first + len(tokens)].astype(np.float64)
    rests = [np.maximum(share * p - q, 0.0) for share, p, q in zip(shares, target, proposal, strict=False)]
    masses = np.array([rest.sum() for rest in rests[1:]])
    apart = np.abs(coins - chances)
    apart[:-1] = np.abs(coins[:-1] * (masses + 1 - shares[1:-1]) - masses)
    is_plain = np.logical_and.accumulate(is_float32(shares))
    is_sure = (apart > _CLEAR) | (shares[1:] == 0) | (is_plain[1:] & is_float32(chances))
    count = int(max(np.flatnonzero(coins < chances) + 1, default=0))
    rest = [*rests, target[-1]][count]
    token, is_drawn = drawn(rest, final)
    if count < len(tokens) and not is_plain[count]:
        is_drawn = bool((np.abs(np.cumsum(rest) - final * rest.sum()) > _CLEAR).all())
    is_exact = bool(is_sure[max(count - 1, 0) :].all()) and is_drawn
    return Decided(list(range(count + 1)), [*tokens[:count].tolist(), token], set(), is_exact)


def chain_of(case: Case, request: int) -> tuple[Array, Array, Array]:
    """Return the drafts of a request before any -1, its rows of the target, and the laws of its drafts, in float64."""
    first, last = case["cu_num_drafts"][request : request + 2].tolist()
    tokens = case["draft_tokens"][first:last]
    ended = np.flatnonzero(tokens < 0)
    tokens = tokens[: ended[0]] if len(ended) else tokens
    target = case["target_probs"][first + request : last + request + 1].astype(np.float64)
    proposal = np.eye(target.shape[1])[tokens]
    if case["draft_probs"] is not None:
        proposal = case["draft_probs"][first:last][: len(tokens)].astype(np.float64)
    return tokens, target[: len(tokens) + 1], proposal


def drawn(rest: Array, coin: float) -> tuple[int, bool]:
    """Return the token at the coin's share of the mass, and whether float32 must find the same."""
    prefix = np.cumsum(rest)
    aim = np.array(coin * prefix[-1])
    if prefix[-1] == 0:
        return len(rest) - 1, True
    return int(np.searchsorted(prefix, aim, side="right")), bool(is_float32(aim) or is_clear(aim, prefix).all())


def is_float32(value: Array) -> Array:
    """Return whether numbers survive single precision."""
    return np.asarray(value.astype(np.float32).astype(np.float64) == value)


def is_clear(one: Array | float, other: Array) -> Array:
    """Return whether numbers lie further apart than single precision may move them."""
    return np.asarray(np.abs(one - other) > _CLEAR * np.maximum(np.abs(one), np.abs(other)))


Decide = Callable[[Case, int], Decided]
