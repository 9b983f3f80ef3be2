"""How close the decisions of a call come to their boundaries, in units of what float32 may round.

A margin says how far a coin lay from the boundary that decided, as a share of the larger of the two, or of the total
mass where a token was drawn; for a filter, how far the nearest token or mass lay from the threshold. It is written down
by decisions that are handed to the reference's own walks and filters.

A unit is a row or a request: an entry of the first axis, or of the first axis in blocks, of every output. Below 1 two
correct implementations may decide differently.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from specsim.conformance.arrays import Array
from specsim.contracts.logit_rows import filters_of
from specsim.contracts.rounding import (
    UNDERFLOW,
    largest_exponents,
    log_ratio_bound,
    race_bound,
    rounding_bound,
)
from specsim.counts import count_tokens
from specsim.host.noise import arrivals, stream_key
from specsim.reference.closest import (
    INFINITE,
    Closest,
    distance,
    margin_of_filters,
    row_bound,
)
from specsim.reference.probabilities import distribution, keep_min_p, keep_top_p
from specsim.reference.sampled_verify import race_times
from specsim.reference.walks import (
    Acceptance,
    Block,
    Coins,
    DraftTree,
    LogitChain,
    block_of_logits,
    draw,
    log_of,
    logit_chain,
    walk_chain,
    walk_chain_from_logits,
    walk_tree,
)
from specsim.topology import Topology

Arguments = Mapping[str, Any]


def top_p_renorm(arguments: Arguments) -> Array:
    """Return the margin of each row: how far its mass with and without the last kept value lies from the share."""
    closest = [Closest() for _ in arguments["probabilities"]]
    for one, row, top_p in zip(closest, arguments["probabilities"], arguments["top_p"].tolist(), strict=True):
        keep_top_p(row, top_p, one.is_share)
    return _in_bounds([one.by_filter for one in closest], arguments["probabilities"].shape[1])


def min_p_renorm(arguments: Arguments) -> Array:
    """Return the margin of each row: how far its entries lie from the threshold."""
    closest = [Closest() for _ in arguments["probabilities"]]
    for one, row, min_p in zip(closest, arguments["probabilities"], arguments["min_p"].tolist(), strict=True):
        keep_min_p(row, min_p, one.reaches)
    return _in_bounds([one.by_filter for one in closest], arguments["probabilities"].shape[1])


def target_probabilities(arguments: Arguments) -> Array:
    """Return the margin of each row: that of the closest of its filters."""
    margins = []
    for row, logits in enumerate(arguments["logits"]):
        request = row // arguments["num_draft_tokens"]
        margin = margin_of_filters(logits, *filters_of(arguments, request))
        margins.append(margin / row_bound(logits, float(arguments["temperature"][request])))
    return np.array(margins, dtype=np.float64)


def tree_speculative_sampling_target_only(arguments: Arguments) -> Array:
    """Return the margin of each request: that of its closest coin; thresholds meet given probabilities exactly."""
    rows = arguments["target_probs"]
    margins = [_closest_of_walk(arguments, request, rows[request].__getitem__).by_coin for request in range(len(rows))]
    return _in_bounds(margins, rows.shape[2])


def chain_speculative_sampling(arguments: Arguments) -> Array:
    """Return the margin of each request: that of its closest coin."""
    offsets, draft_probs = arguments["cu_num_drafts"].tolist(), arguments["draft_probs"]
    closest = [Closest() for _ in offsets[1:]]
    for request, (first, last) in enumerate(pairwise(offsets)):
        walk_chain(
            arguments["draft_tokens"][first:last].tolist(),
            _coins(arguments, request, slice(first, last)),
            None if draft_probs is None else draft_probs[first:last],
            arguments["target_probs"][first + request : last + request + 1],
            closest[request].decisions,
        )
    return _in_bounds([one.by_coin for one in closest], arguments["target_probs"].shape[1])


def chain_block_verification(arguments: Arguments) -> Array:
    """Return the margin of each request: the least of the coins from the last draft to those that are kept, and of
    its last token.
    """
    offsets, draft_probs = arguments["cu_num_drafts"].tolist(), arguments["draft_probs"]
    margins = list[float]()
    for request, (first, last) in enumerate(pairwise(offsets)):
        block = Block.of(
            arguments["draft_tokens"][first:last].tolist(),
            None if draft_probs is None else draft_probs[first:last],
            arguments["target_probs"][first + request : last + request + 1],
        )
        # NOTE: every draft rounds the shares after it once more.
        bound = rounding_bound(len(block.target[0])) * count_tokens(len(block.tokens))
        margins.append(_block_margin(block, _coins(arguments, request, slice(first, last)), bound, is_given=True))
    return np.array(margins, dtype=np.float64)


def _block_margin(block: Block, coins: Coins, bound: float, *, is_given: bool) -> float:
    """Return the margin of one block whose shares may be off by ``bound``; given probabilities are exact."""
    is_whole, kept, margins = _shares_that_are_whole(block, bound, is_given), len(block.tokens), list[float]()
    while kept > 0:
        coin, share = float(coins.each[kept - 1]), block.shares[kept]
        if not is_whole[kept] and share > 0:
            margins.append(_margin_of_front(block, kept, coin) / bound)
        if coin < block.chance_of(kept):
            break
        kept -= 1
    rest, mass = block.rest_after(kept), block.target[kept]
    if kept < len(block.tokens):
        mass = block.shares[kept] * mass
        rest_bound = bound * (mass + block.proposal[kept]).sum()
        possible = np.flatnonzero((mass > 0) & (block.proposal[kept] < mass * (1 + bound)))
    else:
        rest_bound, possible = bound * mass.sum(), np.flatnonzero(mass > 0)
    margins.append(_margin_of_aim(rest, possible, coins.final, draw(rest, coins.final)) / rest_bound)
    return min(margins)


def _shares_that_are_whole(block: Block, bound: float, is_given: bool) -> list[bool]:
    """Return which shares are 1 however they are rounded."""
    is_whole = [True]
    for place, token in enumerate(block.tokens):
        p, q = block.target[place][token], block.proposal[place][token]
        is_clear = block.shares[place] * p > q * (1 + bound)
        is_whole.append(bool(q > 0 and ((is_given and is_whole[-1] and p >= q) or is_clear)))
    return is_whole


def _margin_of_front(block: Block, kept: int, coin: float) -> float:
    """Return how far a coin lies from the chance of a front, by the masses that the chance is made of."""
    share = block.shares[kept]
    if kept == len(block.tokens):
        return distance(coin, share)
    rest = float(block.rest_after(kept).sum())
    masses = 1 + float((share * block.target[kept] + block.proposal[kept]).sum())
    return abs(coin * (rest + 1 - share) - rest) / masses


def verify_tree_sampled_from_logits(arguments: Arguments) -> Array:
    """Return the margin of each request: the least of its walk and of the filters of the rows that it visits."""
    return np.array([_sampled_margin(arguments, request) for request in range(len(arguments["candidates"]))])


def chain_speculative_sampling_from_logits(arguments: Arguments) -> Array:
    """Return the margin of each request: the least of its coins and of the filters of the rows that it visits."""
    return np.array(
        [_chain_margin(logit_chain(arguments, request)) for request in range(len(arguments["temperature"]))],
        dtype=np.float64,
    )


def chain_block_verification_from_logits(arguments: Arguments) -> Array:
    """Return the margin of each request: the least of its block and of the filters of the rows that it reads."""
    return np.array(
        [_logit_block_margin(logit_chain(arguments, request)) for request in range(len(arguments["temperature"]))],
        dtype=np.float64,
    )


def sample_target_predict(arguments: Arguments) -> Array:
    """Return the margin of each request: the least of the filters of its rows and of their races."""
    num_requests, num_nodes = arguments["positions"].shape
    margins = np.full((num_requests, num_nodes), INFINITE)
    for request, node in np.ndindex(num_requests, num_nodes):
        filters = filters_of(arguments, request)
        if filters[0]:
            row = arguments["logits"][request * num_nodes + node]
            by_filter = margin_of_filters(row, *filters) / row_bound(row, filters[0])
            key = stream_key("token", int(arguments["seeds"][request]), int(arguments["positions"][request, node]) + 1)
            margins[request, node] = min(by_filter, _margin_of_race(row, filters, arrivals(key, len(row))))
    return np.asarray(margins.min(axis=1, initial=INFINITE))


def _margin_of_race(logits: Array, filters: tuple[float, int, float, float], exponentials: Array) -> float:
    """Return by how much the winner's time is shorter than each other one, in units of what they may round.

    Tokens of equal logits have equal weights, however these are rounded.
    """
    times = race_times(distribution(logits, *filters), exponentials)
    winner = int(np.argmin(times))
    values = logits.astype(np.float64)
    bounds = np.where(
        values == values[winner], race_bound(0, 0.0), race_bound(len(logits), _largest_exponent(logits, filters[0]))
    )
    with np.errstate(divide="ignore"):
        gaps = np.log(times) - np.log(times[winner])
    return float(np.delete(gaps / bounds, winner).min(initial=INFINITE))


def _chain_margin(chain: LogitChain) -> float:
    if chain.temperature == 0:
        # NOTE: logits are compared with each other, and nothing is rounded.
        return INFINITE
    tokens = walk_chain_from_logits(chain)
    margins = list[float]()
    for place, token in enumerate(tokens):
        row, is_last = chain.target_logits[place], place == len(tokens) - 1
        has_draft = place < len(chain.drafts) and chain.drafts[place] >= 0
        log_p = chain.target_law(place)
        log_q = chain.draft_law(place) if has_draft else np.full(len(row), -np.inf)
        bound = _bound_of_laws(chain, place, has_draft)
        if chain.is_filtered:
            by_filter = margin_of_filters(row, chain.temperature, *chain.filters)
            slack = row_bound(row, chain.temperature)
            margins.append(by_filter / slack)
            bound += slack
        if has_draft:
            draft = chain.drafts[place]
            margins.append(_margin_of_ratio(log_p[draft], log_q[draft], chain.coins.each[place], is_last) / bound)
        if is_last:
            margins.append(_margin_of_rest(log_p, log_q, chain.coins.final, token, bound))
    return min(margins)


def _logit_block_margin(chain: LogitChain) -> float:
    """Return the margin of one block from logits; the errors of all rows that its shares are made of add up.

    A draft whose own probability may be 0 elsewhere is not kept there.
    """
    if chain.temperature == 0:
        # NOTE: logits are compared with each other, and nothing is rounded.
        return INFINITE
    block = block_of_logits(chain)
    num_drafts, kept = len(block.tokens), block.kept_by(chain.coins)
    bound, margins = rounding_bound(len(block.target[0])), list[float]()
    if any(0 < row[token] < UNDERFLOW for token, row in zip(block.tokens, block.proposal, strict=True)):
        return 0.0
    for place in range(num_drafts + (kept == num_drafts)):
        bound += _bound_of_laws(chain, place, place < num_drafts)
        if chain.is_filtered:
            row = chain.target_logits[place]
            slack = row_bound(row, chain.temperature)
            margins.append(margin_of_filters(row, chain.temperature, *chain.filters) / slack)
            bound += slack
    return min([*margins, _block_margin(block, chain.coins, bound, is_given=False)])


def _bound_of_laws(chain: LogitChain, place: int, has_draft: bool) -> float:
    """Return how far the logarithms of p and q of one row, taken together, may be off in float32."""
    draft_exponent = 0.0
    if has_draft and chain.draft_logits is not None and chain.draft_is_drawn:
        draft_exponent = _largest_exponent(chain.draft_logits[place], chain.draft_temperature)
    return log_ratio_bound(_largest_exponent(chain.target_logits[place], chain.temperature), draft_exponent)


def _largest_exponent(logits: Array, temperature: float) -> float:
    return float(largest_exponents(logits[None], np.array([temperature]))[0])


def _margin_of_ratio(log_p: float, log_q: float, coin: float, is_rejected: bool) -> float:
    """Return how far the logarithm of a coin lies from that of the ratio that it is compared with.

    A probability that may be 0 elsewhere accepts nothing there.
    """
    if -np.inf in (log_p, log_q):
        return INFINITE
    if not is_rejected and min(log_p, log_q) < np.log(UNDERFLOW):
        return 0.0
    return abs(log_p - log_q - log_of(coin))


def _margin_of_rest(log_p: Array, log_q: Array, coin: float, token: int, bound: float) -> float:
    """Return how far the aim of a coin lies from the ends of the token that it drew, in units of what sums may round.

    A token whose p and q are nearly the same may have weight elsewhere, and counts as possible.
    """
    rest = np.maximum(np.exp(log_p) - np.exp(log_q), 0.0)
    possible = np.flatnonzero((log_p > -np.inf) & (log_q < log_p + bound))
    return _margin_of_aim(rest, possible, coin, token) / (bound + rounding_bound(len(rest)) * float(rest.sum()))


def _margin_of_aim(rest: Array, possible: Array, coin: float, token: int) -> float:
    """Return how far the aim of a coin lies from the ends of the token that it drew; the outermost ends are certain.

    Where nothing is possible, nothing is close.
    """
    if not len(possible):
        return INFINITE
    prefix, total = np.cumsum(rest), float(rest.sum())
    upper = prefix[token] - coin * total if token != possible[-1] else INFINITE
    lower = coin * total - (prefix[token] - rest[token]) if token != possible[0] else INFINITE
    return float(min(abs(upper), abs(lower)))


def _sampled_margin(arguments: Arguments, request: int) -> float:
    if arguments["temperature"][request] == 0:
        # NOTE: rows of zeros and a one round nothing.
        return INFINITE
    num_nodes, filters = arguments["candidates"].shape[1], filters_of(arguments, request)
    logits = arguments["logits"][request * num_nodes : (request + 1) * num_nodes]
    visited = list[int]()

    def row_of(node: int) -> Array:
        visited.append(node)
        return distribution(logits[node], *filters)

    closest = _closest_of_walk(arguments, request, row_of)
    by_filter = min(margin_of_filters(logits[node], *filters) for node in visited)
    bound = max(row_bound(logits[node], filters[0]) for node in visited)
    return min(closest.by_coin, closest.by_threshold, by_filter) / bound


def _closest_of_walk(arguments: Arguments, request: int, row_of: Callable[[int], Array]) -> Closest:
    closest = Closest()
    tree = Topology.from_links(arguments["retrieve_next_token"][request], arguments["retrieve_next_sibling"][request])
    drafts = arguments["candidates"][request].tolist()
    walk_tree(
        DraftTree(tree, drafts, arguments["num_steps"], bool(arguments["skip_duplicates"])),
        _coins(arguments, request, request),
        row_of,
        Acceptance(
            float(arguments["threshold_single"][request]),
            float(arguments["threshold_acc"][request]),
            bool(arguments["strict"]),
        ),
        closest.decisions,
    )
    return closest


def _coins(arguments: Arguments, request: int, place: int | slice) -> Coins:
    final = float(arguments["uniform_samples_for_final_sampling"][request])
    return Coins(arguments["uniform_samples"][place], final)


def _in_bounds(margins: list[float], vocab_size: int) -> Array:
    return np.array(margins, dtype=np.float64) / rounding_bound(vocab_size)


MARGINS: dict[str, Callable[[Arguments], Array]] = {
    function.__name__: function
    for function in (
        top_p_renorm,
        min_p_renorm,
        target_probabilities,
        tree_speculative_sampling_target_only,
        chain_speculative_sampling,
        chain_block_verification,
        verify_tree_sampled_from_logits,
        chain_speculative_sampling_from_logits,
        chain_block_verification_from_logits,
        sample_target_predict,
    )
}
"""Of every operation that decides in floating point, the margin of each row or request."""
