"""Strategies of acceptance straight from logits."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.acceptance.strategy import SMALL_TREES, sampled_trees, switches
from specsim.properties.operations.from_logits.strategy_chains import (
    COINS,
    chain_block_verification_from_logits,
    chain_speculative_sampling_from_logits,
    coins_of,
)
from specsim.properties.operations.probabilities.strategy import LOGIT_DTYPES, LOGIT_KINDS, logit_row, tie_largest
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly, one_of_evenly
from specsim.properties.strategies.distributions import thresholds
from specsim.properties.strategies.filters import Filters, filters, filters_of, ordered_filters, single_filter
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.scale import draws_for_interpreter
from specsim.properties.strategies.trees import Tree, Trees

# NOTE: an operation's strategy is looked for in this module by its name.
__all__ = ["chain_block_verification_from_logits", "chain_speculative_sampling_from_logits"]

LIFTS = (0.0, 0.0, 2.0, 6.0, 40.0)
INTERPRETED_STARS_ONE_IN = 64

FILTERS = ("top_k", "top_p", "min_p")
LEFT_OUT = (FILTERS, FILTERS, *((name,) for name in FILTERS), ("top_k", "min_p"), FILTERS[1:], FILTERS[:2])
"""Filters that a call leaves out, if any."""


@dataclass(frozen=True)
class Draw:
    """How the logits and coins of one request are made: by how much a child of every node is lifted, and the rest.

    Some requests tell how they are filtered: their filters are chosen for the row of the root, one alone or so that
    their order decides; the likelier tokens come first in every row, and by the coins a walk goes on to each first
    child that is not cut, and ends in the last token that is not cut.
    """

    logits: str
    lift: float
    coins: str
    filters: Filters
    is_telling: bool
    thresholds: tuple[float, float]
    source: Bulk


@composite
def verify_tree_greedy_from_logits(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees and logits with ties, some of which prefer a child of every node."""
    drawn, vocab = draw(_trees(max_requests, st.just(False)))
    return {**drawn.arguments(), "logits": draw(_logits(drawn, vocab))}


@composite
def verify_tree_sampled_from_logits(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees, logits, coins, and a mixture of greedy, filtered and plain requests; some calls leave filters out."""
    drawn, vocab = draw(_trees(max_requests, st.booleans()))
    coins = [coins_of(one.coins, one.source, drawn.width, one.is_telling) for one in drawn.others]
    logits = draw(_logits(drawn, vocab))
    parameters = [_filters(one, logits[place * drawn.width :]) for place, one in enumerate(drawn.others)]
    pairs = np.array([one.thresholds for one in drawn.others], dtype=np.float32).reshape(-1, 2)
    return {
        **drawn.arguments(),
        "uniform_samples": drawn.stacked([row[:-1] for row in coins], np.float32),
        "uniform_samples_for_final_sampling": np.array([row[-1] for row in coins], dtype=np.float32),
        "logits": logits,
        **filters_of(parameters),
        **dict.fromkeys(draw(mostly(st.just(()), st.sampled_from(LEFT_OUT), one_in=4))),
        "threshold_single": pairs[:, 0].copy(),
        "threshold_acc": pairs[:, 1].copy(),
        **draw(switches()),
    }


@made_once
def _trees(max_requests: int, is_telling: st.SearchStrategy[bool]) -> st.SearchStrategy[tuple[Trees[Draw], int]]:
    """Draw trees; for interpreted kernels few and small ones, half of them tiny: many take as long as a large case."""
    drawn = (st.sampled_from(LOGIT_KINDS), st.sampled_from(LIFTS), st.sampled_from(COINS))
    one = st.builds(Draw, *drawn, filters(), is_telling, thresholds(), bulk())
    if draws_for_interpreter():
        tiny = sampled_trees(one, min(max_requests, 1), INTERPRETED_STARS_ONE_IN, largest=3)
        small = sampled_trees(one, min(max_requests, 2), INTERPRETED_STARS_ONE_IN, largest=SMALL_TREES)
        return mostly(tiny, small, one_in=2)
    return sampled_trees(one, max_requests)


@composite
def _logits(draw: st.DrawFn, drawn: Trees[Draw], vocab: int) -> Array:
    rows = [_rows(tree, one, vocab) for tree, one in zip(drawn.requests, drawn.others, strict=True)]
    flat = np.array(rows, dtype=np.float64).reshape(len(rows) * drawn.width, vocab)
    return flat.astype(draw(st.sampled_from(LOGIT_DTYPES)))


def _rows(tree: Tree, one: Draw, vocab: int) -> Array:
    """Return logits [node, vocab] in which one child of every node is lifted, or all are in falling order."""
    kind = one.logits if one.logits == "masked" or not one.is_telling else "eighths"
    rows = np.stack([logit_row(kind, vocab, one.source) for _ in tree.tokens])
    if one.is_telling:
        rows = -np.sort(-rows, axis=1)
    elif one.lift:
        for node, below in enumerate(tree.children):
            if below:
                token = tree.tokens[below[one.source.integer(0, len(below) - 1)]]
                rows[node, token] = np.max(rows[node]) + one.lift
    if one.filters.temperature == 0:
        tie_largest(rows, one.source)
    return rows


def _filters(one: Draw, logits: Array) -> Filters:
    if one.filters.temperature == 0 or not one.is_telling:
        return one.filters
    chosen = ordered_filters if one.source.integer(0, 3) == 3 else single_filter
    return chosen(logits[0], one.source) or one.filters


def calls() -> st.SearchStrategy[tuple[str, Arguments]]:
    """Return a strategy of calls of either operation, each with its name."""
    return one_of_evenly(
        verify_tree_greedy_from_logits().map(lambda case: ("verify_tree_greedy_from_logits", case)),
        verify_tree_sampled_from_logits().map(lambda case: ("verify_tree_sampled_from_logits", case)),
    )
