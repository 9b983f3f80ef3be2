"""Strategies of acceptance by chance."""

from dataclasses import replace
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from specsim.hashing import MASK as WORD
from specsim.properties.composite import composite
from specsim.properties.operations.acceptance.strategy_chains import (
    COINS,
    LARGEST_CHEAP_VOCABULARY,
    chain_block_verification,
    chain_speculative_sampling,
)
from specsim.properties.operations.acceptance.strategy_trials import (
    OF_THRESHOLDS,
    STAR_TRIALS,
    TABLE_TRIALS,
    USUAL_TRIALS,
    sampled_request,
)
from specsim.properties.operations.compact.strategy import accepted
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, mostly, overridden
from specsim.properties.strategies.distributions import chances, vocab_sizes
from specsim.properties.strategies.limits import limits, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import BOUNDARY_LENGTHS, batch, lengths, num_nodes
from specsim.properties.strategies.trees import Trees, trees

# NOTE: an operation's strategy is looked for in this module by its name.
__all__ = ["chain_block_verification", "chain_speculative_sampling"]

T = TypeVar("T")

SMALL_TREES = 8
STAR_VOCABULARIES = (3, 64, 128, 257)


@composite
def generate_coins(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw seeds and lengths; several requests may share either."""
    words = st.one_of(st.integers(0, WORD), st.sampled_from((0, 1, WORD)))
    requests = draw(batch(st.tuples(words, st.one_of(lengths(), st.just(2**31 - 1))), max_requests))
    return {
        "seeds": np.array([seed for seed, _ in requests], dtype=np.int64),
        "seq_lens": np.array([length for _, length in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_draft_tokens": draw(sized("node", st.one_of(num_nodes(), st.sampled_from(BOUNDARY_LENGTHS)))),
    }


@composite
def tree_speculative_sampling_target_only(
    draw: st.DrawFn, max_requests: int = MAX_REQUESTS, is_table: bool = False, is_wide: bool = False
) -> Arguments:
    """Draw trees, rows that favour their children or do not, and coins on and beside the boundaries.

    Parameters
    ----------
    max_requests : int
        The largest batch.
    is_table : bool
        Draw the table of boundaries: every sum is exact, and most coins lie on a boundary or beside it.
    is_wide : bool
        Draw stars of many siblings only.
    """
    one = chances(is_table)
    trials: tuple[str | None, ...] = STAR_TRIALS if is_wide else TABLE_TRIALS if is_table else USUAL_TRIALS
    if limits().has_distinct_siblings:
        trials = tuple(kind for kind in trials if kind != "twins")
    if not limits().takes_thresholds:
        trials = tuple(kind for kind in trials if kind not in OF_THRESHOLDS)
    drawn, vocab = draw(wide_stars(one, max_requests) if is_wide else sampled_trees(one, max_requests))
    whole = st.just(1.0)
    scale = draw(whole if limits().is_normalised else mostly(whole, st.just(0.5), one_in=4 if is_table else 10))
    requests = [
        sampled_request(tree, chance, vocab, drawn.num_steps, scale, trials)
        for tree, chance in zip(drawn.requests, drawn.others, strict=True)
    ]
    drawn = replace(drawn, requests=[one.tree for one in requests])
    target_probs = drawn.stacked([one.rows for one in requests], np.float32, vocab)
    thresholds = np.array([one.thresholds for one in requests], dtype=np.float32).reshape(-1, 2)
    final = np.array([one.final_coin for one in requests], dtype=np.float32)
    return {
        **drawn.arguments(),
        "uniform_samples": drawn.stacked([one.coins for one in requests], np.float32),
        "uniform_samples_for_final_sampling": draw(overridden(final, COINS)),
        "target_probs": target_probs,
        "draft_probs": np.zeros_like(target_probs),
        "threshold_single": thresholds[:, 0].copy(),
        "threshold_acc": thresholds[:, 1].copy(),
        **draw(switches(2 if is_table else 4)),
    }


@made_once
def sampled_trees(
    of_request: st.SearchStrategy[T], max_requests: int, stars_one_in: int = 8, largest: int | None = None
) -> st.SearchStrategy[tuple[Trees[T], int]]:
    """Return a strategy of trees and their vocabulary; small and few ones where the vocabulary is large.

    Now and then all of them are stars of many siblings, which may have more nodes than ``largest``.
    """

    def over(vocab: int) -> st.SearchStrategy[tuple[Trees[T], int]]:
        if vocab <= LARGEST_CHEAP_VOCABULARY:
            return st.tuples(trees(of_request, max_requests, vocab, largest), st.just(vocab))
        few = trees(of_request, min(max_requests, 2), vocab, min(largest or SMALL_TREES, SMALL_TREES))
        return st.tuples(few, st.just(vocab))

    return mostly(vocab_sizes().flatmap(over), wide_stars(of_request, max_requests), one_in=stars_one_in)


@made_once
def wide_stars(of_request: st.SearchStrategy[T], max_requests: int) -> st.SearchStrategy[tuple[Trees[T], int]]:
    """Return a strategy of stars of more than 32 siblings, and their vocabulary."""

    def over(vocab: int) -> st.SearchStrategy[tuple[Trees[T], int]]:
        return st.tuples(trees(of_request, min(max_requests, 2), vocab, kinds=("star",)), st.just(vocab))

    return sized("vocab", st.sampled_from(STAR_VOCABULARIES)).flatmap(over)


@made_once
def switches(one_in: int = 4) -> st.SearchStrategy[Arguments]:
    """Return a strategy of the two switches of a tree sampler; most often both are on."""
    on = {name: mostly(st.just(True), st.just(False), one_in) for name in ("strict", "skip_duplicates")}
    return st.fixed_dictionaries({name: sized(name, switch).map(bool) for name, switch in on.items()})


@composite
def generate_simulated_accept_index(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths and a count of tokens that has nothing to do with them."""
    paths = draw(accepted(max_requests))
    count = draw(st.integers(1, paths.accept_index.shape[1]))
    return {"accept_index": paths.accept_index, "simulated_num_tokens": count, "num_draft_tokens": paths.num_nodes}
