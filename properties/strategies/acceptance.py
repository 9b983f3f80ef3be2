"""Strategies of acceptance by chance."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.contracts.chains import draft_rows_read, target_rows_read
from specsim.hashing import MASK as WORD
from specsim.host.sampling import COIN_STEP, LARGEST_COIN
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    Arguments,
    Array,
    bulk,
    mostly,
    overridden,
)
from specsim.properties.strategies.compact import accepted
from specsim.properties.strategies.distributions import (
    Chance,
    chances,
    moved,
    probability_row,
    uniform_coins,
    vocab_sizes,
)
from specsim.properties.strategies.limits import limits, nearest, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import BOUNDARY_LENGTHS, batch, lengths, num_nodes
from specsim.properties.strategies.trees import Trees, trees
from specsim.properties.strategies.trials import OF_THRESHOLDS, STAR_TRIALS, TABLE_TRIALS, USUAL_TRIALS, sampled_request

T = TypeVar("T")

SMALL_TREES = 8
STAR_VOCABULARIES = (3, 64, 128, 257)
LARGEST_CHEAP_VOCABULARY = 300
ROUNDED_CHAINS = 24
DRAFTS = ("likely", "random", "same", "impossible")
UNREAD = (None, 0.0, float("nan"), -7.0)
"""What stands in the rows that a chain's walk does not read: a distribution, no mass, nothing, or no probability."""
_COINS = (0.0, COIN_STEP, LARGEST_COIN)


@composite
def generate_coins(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
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
    draw: DrawFn, max_requests: int = MAX_REQUESTS, is_table: bool = False, is_wide: bool = False
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
        "uniform_samples_for_final_sampling": draw(overridden(final, _COINS)),
        "target_probs": target_probs,
        "draft_probs": np.zeros_like(target_probs),
        "threshold_single": thresholds[:, 0].copy(),
        "threshold_acc": thresholds[:, 1].copy(),
        **draw(switches(2 if is_table else 4)),
    }


@made_once
def sampled_trees(
    of_request: SearchStrategy[T], max_requests: int, stars_one_in: int = 8, largest: int | None = None
) -> SearchStrategy[tuple[Trees[T], int]]:
    """Return a strategy of trees and their vocabulary; small and few ones where the vocabulary is large.

    Now and then all of them are stars of many siblings, which may have more nodes than ``largest``.
    """

    def over(vocab: int) -> SearchStrategy[tuple[Trees[T], int]]:
        is_dear = vocab > LARGEST_CHEAP_VOCABULARY
        if not is_dear:
            return st.tuples(trees(of_request, max_requests, vocab, largest), st.just(vocab))
        few = trees(of_request, min(max_requests, 2), vocab, min(largest or SMALL_TREES, SMALL_TREES))
        return st.tuples(few, st.just(vocab))

    return mostly(vocab_sizes().flatmap(over), wide_stars(of_request, max_requests), one_in=stars_one_in)


@made_once
def wide_stars(of_request: SearchStrategy[T], max_requests: int) -> SearchStrategy[tuple[Trees[T], int]]:
    """Return a strategy of stars of more than 32 siblings, and their vocabulary."""

    def over(vocab: int) -> SearchStrategy[tuple[Trees[T], int]]:
        return st.tuples(trees(of_request, min(max_requests, 2), vocab, kinds=("star",)), st.just(vocab))

    return sized("vocab", st.sampled_from(STAR_VOCABULARIES)).flatmap(over)


@made_once
def switches(one_in: int = 4) -> SearchStrategy[Arguments]:
    """Return a strategy of the two switches of a tree sampler; most often both are on."""
    on = {name: mostly(st.just(True), st.just(False), one_in) for name in ("strict", "skip_duplicates")}
    return st.fixed_dictionaries({name: sized(name, switch).map(bool) for name, switch in on.items()})


@dataclass(frozen=True)
class Chain:
    """One request of a ragged batch: drafted tokens, their coins and laws, the target's rows, and the final coin."""

    tokens: Array
    coins: Array
    draft_probs: Array
    target_probs: Array
    final_coin: Array


@composite
def chain_speculative_sampling(
    draw: DrawFn, max_requests: int = MAX_REQUESTS, is_table: bool = False, is_whole: bool = False
) -> Arguments:
    """Draw ragged chains, some without drafts or ended by -1, against laws that agree, differ, or are absent.

    Rows that the walk does not read may hold zeros, NaN, or what is no probability.

    Parameters
    ----------
    max_requests : int
        The largest batch.
    is_table : bool
        Draw the table of boundaries: every sum is exact, and most coins lie on a boundary or beside it.
    is_whole : bool
        All rows are distributions, those that are not read too.
    """
    vocab = draw(vocab_sizes())
    most = 3 if vocab > LARGEST_CHEAP_VOCABULARY else draw(sized("draft", st.sampled_from((1, 3, 6, 33))))
    is_certain = draw(mostly(st.just(False), st.just(True), one_in=3))
    one = st.tuples(st.integers(0, most), chances(is_table), st.sampled_from(DRAFTS))
    requests = [_chain(vocab, *drawn, is_certain) for drawn in draw(batch(one, max_requests))]
    counts = [len(chain.tokens) for chain in requests]
    arguments = {
        "draft_tokens": _joined([chain.tokens for chain in requests], np.int64),
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "uniform_samples": _joined([chain.coins for chain in requests], np.float32),
        "uniform_samples_for_final_sampling": np.array([chain.final_coin for chain in requests], dtype=np.float32),
        "draft_probs": None if is_certain else _joined([chain.draft_probs for chain in requests], np.float32, vocab),
        "target_probs": _joined([chain.target_probs for chain in requests], np.float32, vocab),
        "max_num_drafts": nearest("draft", max(counts, default=0) + draw(st.sampled_from((0, 0, 0, 1, 4)))),
    }
    unread = draw(st.sampled_from(UNREAD))
    is_whole = is_whole or limits().is_normalised
    return arguments if is_whole or unread is None else _with_unread_rows(arguments, unread)


@composite
def laws_that_round_apart(draw: DrawFn) -> Arguments:
    """Draw chains of one draft whose law is the target's but for the last digit of the draft's own probability.

    No rejection leaves anything to draw from, and coins just below 1 reject where rounding does not hide the digit.
    """
    source = draw(bulk())
    vocab = draw(st.sampled_from((2, 3, 4)))
    rows = np.stack([probability_row("any", vocab, source) for _ in range(ROUNDED_CHAINS)]).astype(np.float32)
    tokens, place = rows.argmax(axis=1), np.arange(ROUNDED_CHAINS)
    draft_probs = rows.copy()
    draft_probs[place, tokens] = np.nextafter(rows[place, tokens], np.float32(2))
    return {
        "draft_tokens": tokens.astype(np.int64),
        "cu_num_drafts": np.arange(ROUNDED_CHAINS + 1, dtype=np.int32),
        "uniform_samples": np.full(ROUNDED_CHAINS, LARGEST_COIN, dtype=np.float32),
        "uniform_samples_for_final_sampling": uniform_coins(source, ROUNDED_CHAINS).astype(np.float32),
        "draft_probs": draft_probs,
        "target_probs": rows.repeat(2, axis=0),
        "max_num_drafts": 1,
    }


def _with_unread_rows(arguments: Arguments, value: float) -> Arguments:
    """Return the call with one value everywhere in the rows that its walk does not read."""
    changed = dict(arguments)
    for name, rows_read in (("draft_probs", draft_rows_read), ("target_probs", target_rows_read)):
        if arguments[name] is not None:
            is_read = rows_read(arguments)[:, None]
            changed[name] = np.where(is_read, arguments[name], np.float32(value))
    return changed


def _chain(vocab: int, count: int, chance: Chance, drafts: str, is_certain: bool) -> Chain:
    """Return one chain; its tokens come from the draft's law, from anywhere, or from where that law is zero.

    The draft's law is the target's own for the kind ``same``, so that no mass is left after a rejection.
    """
    source = chance.source
    target = np.stack([probability_row(chance.rows, vocab, source) for _ in range(count + 1)])
    draft = np.stack([probability_row(chance.rows, vocab, source) for _ in range(count + 1)])[:count]
    if drafts == "same":
        draft = target[:count].copy()
    tokens = source.integers(count, 0, vocab - 1)
    if drafts in ("likely", "same"):
        tokens = draft.argmax(axis=1)
    if drafts == "impossible":
        tokens = draft.argmin(axis=1)
    if not limits().takes_zero_proposals:
        tokens = np.where(draft[np.arange(count), tokens] > 0, tokens, draft.argmax(axis=1))
    coins = uniform_coins(source, count + 1)
    if chance.coins == "extreme":
        coins = np.array(_COINS)[source.integers(count + 1, 0, 2)]
    elif chance.coins == "low":
        coins[:-1] /= 16
    single = coins.astype(np.float32)
    if chance.coins == "edges" and chance.is_exact:
        single[:-1] = _edges(tokens, draft, target, single[:-1], is_certain)
        prefix = np.cumsum(target[-1], dtype=np.float64)
        single[-1] = prefix[source.integer(0, vocab - 1)]
        single = moved(single, source.integers(count + 1, -1, 1))
    if count and source.integer(0, 3) == 3 and (is_certain or limits().takes_padded_proposals):
        tokens[source.integer(0, count - 1) :] = -1
    return Chain(tokens, single[:-1], draft, target, single[-1])


def _edges(tokens: Array, draft: Array, target: Array, coins: Array, is_certain: bool) -> Array:
    """Return coins at which a draft is just not accepted, where float32 holds such a coin."""
    place = np.arange(len(tokens))
    proposed = np.ones(len(tokens)) if is_certain else draft[place, tokens].astype(np.float64)
    ratio = np.divide(target[place, tokens], proposed, out=coins.astype(np.float64), where=proposed > 0)
    single = np.minimum(ratio, LARGEST_COIN).astype(np.float32)
    return np.where(single == ratio, single, coins)


def _joined(parts: list[Array], dtype: type, *trailing: int) -> Array:
    return np.concatenate([np.zeros((0, *trailing), dtype=dtype), *parts]).astype(dtype)


@composite
def generate_simulated_accept_index(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths and a count of tokens that has nothing to do with them."""
    paths = draw(accepted(max_requests))
    return {
        "accept_index": paths.accept_index,
        "simulated_num_tokens": draw(st.integers(1, paths.accept_index.shape[1])),
        "num_draft_tokens": paths.num_nodes,
    }
