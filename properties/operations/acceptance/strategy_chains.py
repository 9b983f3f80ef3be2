"""Strategies of ragged chains and their probabilities, judged token by token or as a block."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.contracts.chains import block_draft_rows_read, block_target_rows_read, draft_rows_read, target_rows_read
from specsim.host.sampling import COIN_STEP, LARGEST_COIN
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly
from specsim.properties.strategies.distributions import (
    Chance,
    chances,
    moved,
    probability_row,
    uniform_coins,
    vocab_sizes,
    with_a_coin_of_0,
)
from specsim.properties.strategies.limits import limits, nearest, sized
from specsim.properties.strategies.topologies import batch

LARGEST_CHEAP_VOCABULARY = 300
ROUNDED_CHAINS = 24
DRAFTS = ("likely", "random", "same", "impossible")
UNREAD = (None, 0.0, float("nan"), -7.0)
"""What stands in the rows that a chain's walk does not read: a distribution, no mass, nothing, or no probability."""
COINS = (0.0, COIN_STEP, LARGEST_COIN)
TRIED_ROWS = 8
"""Pairs of rows of which that is taken whose share shows the most."""


RowsRead = Mapping[str, Callable[[Arguments], Array]]
"""Which rows of either side are read, by the name of the side."""


@dataclass(frozen=True)
class Chain:
    """One request of a ragged batch: drafted tokens, coins with the final one, and the rows of both sides."""

    tokens: Array
    coins: Array
    draft: Array
    target: Array


@dataclass(frozen=True)
class Judged:
    """How chains are judged.

    Parameters
    ----------
    edges : callable
        Returns, of drafts and the rows of both sides, at which coins a decision changes.
    rows_read : mapping
        Which rows of either side are read.
    has_trials : bool
        Whether two of three chains are put on trial.
    """

    edges: Callable[[Array, Array, Array], Array]
    rows_read: RowsRead
    has_trials: bool = False


def ratios(tokens: Array, target: Array, draft: Array) -> Array:
    """Return the coins at which each draft is just not accepted by itself; a draft that cannot be drawn has none."""
    place = np.arange(len(tokens))
    wanted, offered = target[place, tokens].astype(np.float64), draft[place, tokens].astype(np.float64)
    return np.asarray(np.divide(wanted, offered, out=np.full(len(tokens), -1.0), where=offered > 0))


def chances_of_fronts(tokens: Array, target: Array, draft: Array) -> Array:
    """Return the coins at which each front of drafts that are judged together is just not kept, in float64."""
    shares = shares_of_fronts(tokens, target, draft)[1:]
    rests = np.maximum(shares[:-1, None] * target[1 : len(tokens)] - draft[1:], 0.0).sum(axis=1)
    chances = shares.copy()
    is_between = (chances[:-1] > 0) & (chances[:-1] < 1)
    np.divide(rests, rests + 1 - shares[:-1], out=chances[:-1], where=is_between)
    return chances


def shares_of_fronts(tokens: Array, target: Array, draft: Array) -> Array:
    """Return the share of no draft, of the first, of the first two and so on: their ratios' product, cut at 1."""

    def cut_at_one(share: float, ratio: float) -> float:
        return min(share * max(ratio, 0.0), 1.0)

    return np.array([*accumulate(ratios(tokens, target, draft).tolist(), cut_at_one, initial=1.0)])


TOKEN_BY_TOKEN = Judged(ratios, {"draft_probs": draft_rows_read, "target_probs": target_rows_read})
AS_A_BLOCK = Judged(
    chances_of_fronts, {"draft_probs": block_draft_rows_read, "target_probs": block_target_rows_read}, has_trials=True
)


@composite
def chain_speculative_sampling(
    draw: st.DrawFn,
    max_requests: int = MAX_REQUESTS,
    is_table: bool = False,
    is_whole: bool = False,
    judged: Judged = TOKEN_BY_TOKEN,
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
    judged : Judged
        How they are judged.
    """
    vocab = draw(vocab_sizes())
    most = 3 if vocab > LARGEST_CHEAP_VOCABULARY else draw(sized("draft", st.sampled_from((1, 3, 6, 33))))
    is_certain = draw(mostly(st.just(False), st.just(True), one_in=4 if judged.has_trials else 3))
    one = st.tuples(st.integers(0, most).map(lambda count: (count, most)), chances(is_table), st.sampled_from(DRAFTS))
    requests = [_chain(vocab, *drawn, is_certain, judged) for drawn in draw(batch(one, max_requests))]
    draft_probs = None if is_certain else joined([chain.draft for chain in requests], np.float32, vocab)
    target_probs = joined([chain.target for chain in requests], np.float32, vocab)
    arguments = {**draw(in_a_batch(requests)), "draft_probs": draft_probs, "target_probs": target_probs}
    unread = draw(st.sampled_from(UNREAD))
    is_whole = is_whole or limits().is_normalised
    return arguments if is_whole or unread is None else with_unread_rows(arguments, unread, judged.rows_read)


@composite
def in_a_batch(draw: st.DrawFn, chains: Sequence[Chain]) -> Arguments:
    """Draw the arguments of a ragged batch but for its rows; the longest draft may be longer than any that there is."""
    counts = [len(chain.tokens) for chain in chains]
    return {
        "draft_tokens": joined([chain.tokens for chain in chains], np.int64),
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "uniform_samples": joined([chain.coins[:-1] for chain in chains], np.float32),
        "uniform_samples_for_final_sampling": np.array([chain.coins[-1] for chain in chains], dtype=np.float32),
        "max_num_drafts": nearest("draft", max(counts, default=0) + draw(st.sampled_from((0, 0, 0, 1, 4)))),
    }


def chain_block_verification(
    max_requests: int = MAX_REQUESTS, is_table: bool = False, is_whole: bool = False
) -> st.SearchStrategy[Arguments]:
    """Return a strategy of the same chains for a block: coins on the bounds of its fronts, and other rows unread."""
    return chain_speculative_sampling(max_requests, is_table, is_whole, AS_A_BLOCK)


@composite
def laws_that_round_apart(draw: st.DrawFn) -> Arguments:
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
        **single_drafts(tokens, np.full(ROUNDED_CHAINS, LARGEST_COIN), uniform_coins(source, ROUNDED_CHAINS)),
        "draft_probs": draft_probs,
        "target_probs": rows.repeat(2, axis=0),
    }


def single_drafts(tokens: Array, coins: Array, final_coins: Array) -> Arguments:
    """Return what chains of one draft each are but for their rows."""
    return {
        "draft_tokens": tokens.astype(np.int64),
        "cu_num_drafts": np.arange(len(tokens) + 1, dtype=np.int32),
        "uniform_samples": coins.astype(np.float32),
        "uniform_samples_for_final_sampling": final_coins.astype(np.float32),
        "max_num_drafts": 1,
    }


def with_unread_rows(arguments: Arguments, value: float, rows_read: RowsRead) -> Arguments:
    """Return the call with one value everywhere in the rows that are not read."""
    changed = dict(arguments)
    for name, is_read in rows_read.items():
        if arguments[name] is not None:
            changed[name] = arguments[name].copy()
            changed[name][~is_read(arguments)] = value
    return changed


def _chain(vocab: int, sizes: tuple[int, int], chance: Chance, drafts: str, is_certain: bool, judged: Judged) -> Chain:
    """Return one chain; its tokens come from the draft's law, from anywhere, or from where that law is zero.

    The draft's law is the target's own for the kind ``same``, so that no mass is left after a rejection. Of others one
    in four has its most likely drafts, and coins that reject them unless the target likes them as much. ``sizes`` are
    its number of drafts and the largest that there may be.
    """
    source = chance.source
    if judged.has_trials and source.integer(0, 2) > 0:
        return _chain_on_trial(vocab, sizes, chance, is_certain, judged)
    count = sizes[0]
    target = np.stack([probability_row(chance.rows, vocab, source) for _ in range(count + 1)])
    draft = np.stack([probability_row(chance.rows, vocab, source) for _ in range(count + 1)])[:count]
    if drafts == "same":
        draft = target[:count].copy()
    tokens = source.integers(count, 0, vocab - 1)
    if drafts in ("likely", "same"):
        tokens = draft.argmax(axis=1)
    if drafts == "impossible":
        tokens = draft.argmin(axis=1)
    rejects = not judged.has_trials and drafts != "same" and not chance.is_exact and source.integer(0, 3) == 0
    if rejects:
        tokens = draft.argmax(axis=1)
    tokens = _possible(tokens, draft)
    coins = uniform_coins(source, count + 1)
    if rejects:
        coins[:-1] = LARGEST_COIN
    elif chance.coins == "extreme":
        coins = np.array(COINS)[source.integers(count + 1, 0, 2)]
    elif chance.coins == "low":
        coins[:-1] /= 16
    single = coins.astype(np.float32)
    if chance.coins == "edges" and chance.is_exact:
        edges = judged.edges(tokens, target, np.eye(vocab)[tokens] if is_certain else draft)
        single[:-1] = _at_edges(edges, single[:-1])
        single[-1] = np.cumsum(target[-1], dtype=np.float64)[source.integer(0, vocab - 1)]
        single = moved(single, source.integers(count + 1, -1, 1))
    elif chance.coins == "low" and not rejects and not judged.has_trials:
        single = with_a_coin_of_0(single, source)
    _end_some(tokens, is_certain, source)
    return Chain(tokens, single, draft, target)


def _possible(tokens: Array, draft: Array) -> Array:
    """Return the drafts; where they have to be possible ones, the likeliest in the place of others."""
    if limits().takes_zero_proposals:
        return tokens
    return np.where(draft[np.arange(len(tokens)), tokens] > 0, tokens, draft.argmax(axis=1))


def _end_some(tokens: Array, is_certain: bool, source: Bulk) -> None:
    """End one chain in four by -1, at any of its drafts."""
    if len(tokens) and source.integer(0, 3) == 3 and (is_certain or limits().takes_padded_proposals):
        tokens[source.integer(0, len(tokens) - 1) :] = -1


def _chain_on_trial(vocab: int, sizes: tuple[int, int], chance: Chance, is_certain: bool, judged: Judged) -> Chain:
    """Return a chain of two drafts or more, if there may be so many, whose ratios lie on both sides of 1.

    The target has half of what each draft was drawn from, and half its own; each draft is what it likes most, or least.
    Of one in four either side's row lacks a draft. One coin lies just below its edge, and those after it above theirs;
    the final coin lies beside the end of a token of what is left then. From the last draft that it keeps on every other
    chain has those that the target likes least, so that the share of what it keeps is below 1 and does not come back;
    there the rows are such that this share shows in what is left, and the final coin lies where it draws another token
    with the share than without.
    """
    source, kind = chance.source, "coarse" if chance.is_exact else "softmax"
    count = max(sizes[0], min(sizes[1], source.integer(2, 4)))
    draft, own = (np.stack([probability_row(kind, vocab, source) for _ in range(count + 1)]) for _ in range(2))
    if is_certain:
        draft = np.eye(vocab, dtype=np.float32)[source.integers(count + 1, 0, vocab - 1)]
    ends_early = count > 1 and source.integer(0, 1) == 1
    last = source.integer(1, count - 1) if ends_early else source.integer(0, count)
    if ends_early and not is_certain:
        draft[last], own[last] = _rows_whose_share_shows(kind, vocab, source)
    target, draft = (draft + own) / 2, draft[:count]
    ratio = np.divide(target[:count], draft, out=np.full_like(draft, np.nan), where=draft > 0)
    tokens = np.where(source.integers(count, 0, 1) == 1, np.nanargmax(ratio, axis=1), np.nanargmin(ratio, axis=1))
    if ends_early:
        tokens[last - 1 :] = np.nanargmin(ratio[last - 1 :], axis=1)
    if count and vocab > 1 and source.integer(0, 3) == 3:
        place, side = source.integer(0, count - 1), (target, draft)[source.integer(0, 1)]
        token = tokens[place]
        side[place, (token + 1) % vocab] += side[place, token]
        side[place, token] = 0
    tokens = _possible(tokens, draft)
    coins, proposal = uniform_coins(source, count + 1), np.eye(vocab)[tokens] if is_certain else draft
    coins[:-1] = _around_edges(np.maximum(judged.edges(tokens, target, proposal), 0), coins[:-1], last)
    share = shares_of_fronts(tokens, target, proposal)[last]
    ends = _ends(target[last]) if last == count else _ends_of_rest(share, target[last], proposal[last])
    coins[-1] = ends[source.integer(0, vocab - 1)] + (coins[-1] - 0.5) / 8
    if ends_early and not is_certain:
        others = _ends_of_rest(1.0, target[last], proposal[last])
        widest = np.abs(ends - others).argmax()
        coins[-1] = (ends[widest] + others[widest]) / 2
    _end_some(tokens, is_certain, source)
    return Chain(tokens, np.clip(coins, 0, LARGEST_COIN).astype(np.float32), draft, target)


def _rows_whose_share_shows(kind: str, vocab: int, source: Bulk) -> tuple[Array, Array]:
    """Return, of some pairs of a row of the draft and one of the target's own, that whose share shows the most.

    That is where most coins draw another token of what is left of half the target's row than of what is left of all.
    """

    def spread(pair: tuple[Array, Array]) -> float:
        draft, own = pair
        ends, others = (_ends_of_rest(share, (draft + own) / 2, draft) for share in (0.5, 1.0))
        return float(np.abs(ends - others).max()) if ends.any() else 0.0

    rows = [probability_row(kind, vocab, source) for _ in range(2 * TRIED_ROWS)]
    return max(zip(rows[::2], rows[1::2], strict=True), key=spread)


def _ends_of_rest(share: float, target: Array, proposal: Array) -> Array:
    """Return the coins at which each token's part of what a rejection leaves ends."""
    return _ends(np.maximum(share * target - proposal, 0))


def _ends(rest: Array) -> Array:
    return np.asarray(np.cumsum(rest) / max(float(rest.sum()), COIN_STEP))


def _around_edges(edges: Array, coins: Array, last: int) -> Array:
    """Return coins of which that of the last draft to be kept lies just below its edge, and all after it above.

    A coin is on an edge of 0.
    """
    around = np.where(edges > 0, edges + (1 - edges) * coins / 32, 0)
    around[: max(last - 1, 0)] = coins[: max(last - 1, 0)]
    if last:
        around[last - 1] = edges[last - 1] * (1 - coins[last - 1] / 32)
    return np.minimum(around, LARGEST_COIN)


def _at_edges(edges: Array, coins: Array) -> Array:
    """Return coins on edges, where float32 holds such a coin."""
    single = np.minimum(edges, LARGEST_COIN).astype(np.float32)
    return np.where((single == edges) & (edges >= 0), single, coins)


def joined(parts: list[Array], dtype: Any, *trailing: int) -> Array:
    """Return arrays one after another; of none of them the empty one, whose other axes are given."""
    return np.concatenate([np.zeros((0, *trailing)), *parts]).astype(dtype)
