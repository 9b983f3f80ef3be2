"""Strategies of acceptance straight from logits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.contracts.chains import (
    block_draft_logits_read,
    block_target_logits_read,
    draft_logits_read,
    target_logits_read,
)
from specsim.host.sampling import COIN_STEP, LARGEST_COIN
from specsim.properties.composite import composite
from specsim.properties.strategies.acceptance import SMALL_TREES, sampled_trees, switches
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly, one_of_evenly
from specsim.properties.strategies.chains import LARGEST_CHEAP_VOCABULARY
from specsim.properties.strategies.distributions import thresholds, uniform_coins, vocab_sizes
from specsim.properties.strategies.filters import (
    TEMPERATURES,
    Filters,
    filters,
    filters_of,
    ordered_filters,
    single_filter,
)
from specsim.properties.strategies.limits import limits, nearest, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.probabilities import LOGIT_DTYPES, LOGIT_KINDS, logit_row, tie_largest
from specsim.properties.strategies.scale import draws_for_interpreter
from specsim.properties.strategies.topologies import batch
from specsim.properties.strategies.trees import Tree, Trees

LIFTS = (0.0, 0.0, 2.0, 6.0, 40.0)
INTERPRETED_STARS_ONE_IN = 64
COINS = ("uniform", "uniform", "low", "extreme")
DRAFT_ROWS = ("own", "own", "near", "same")
DRAFTS = ("likely", "likely", "random", "wanted", "impossible")
LIKED = 80.0
"""A logit whose token has all but a thousandth of a row of others, however warm."""
UNREAD = (None, 0.0, float("nan"), float("inf"), -float("inf"))
"""What stands in the rows that a chain's walk does not read: logits, equal ones, or what is no law."""

RowsRead = Mapping[str, Callable[[Arguments], Array]]
OF_WALKS: RowsRead = {"draft_logits": draft_logits_read, "target_logits": target_logits_read}
OF_BLOCKS: RowsRead = {"draft_logits": block_draft_logits_read, "target_logits": block_target_logits_read}
"""Which rows of either side are read where drafts are judged one after another, and where they are judged together."""


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
def verify_tree_greedy_from_logits(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees and logits with ties, some of which prefer a child of every node."""
    drawn, vocab = draw(_trees(max_requests, st.just(False)))
    return {**drawn.arguments(), "logits": draw(_logits(drawn, vocab))}


@composite
def verify_tree_sampled_from_logits(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees, logits, coins, and a mixture of greedy, filtered and plain requests."""
    drawn, vocab = draw(_trees(max_requests, st.booleans()))
    coins = [_coins(one.coins, one.source, drawn.width, one.is_telling) for one in drawn.others]
    logits = draw(_logits(drawn, vocab))
    parameters = [_filters(one, logits[place * drawn.width :]) for place, one in enumerate(drawn.others)]
    pairs = np.array([one.thresholds for one in drawn.others], dtype=np.float32).reshape(-1, 2)
    return {
        **drawn.arguments(),
        "uniform_samples": drawn.stacked([row[:-1] for row in coins], np.float32),
        "uniform_samples_for_final_sampling": np.array([row[-1] for row in coins], dtype=np.float32),
        "logits": logits,
        **filters_of(parameters),
        "threshold_single": pairs[:, 0].copy(),
        "threshold_acc": pairs[:, 1].copy(),
        **draw(switches()),
    }


@made_once
def _trees(max_requests: int, is_telling: SearchStrategy[bool]) -> SearchStrategy[tuple[Trees[Draw], int]]:
    """Draw trees; for interpreted kernels few and small ones, half of them tiny: many take as long as a large case."""
    one = st.builds(
        Draw,
        st.sampled_from(LOGIT_KINDS),
        st.sampled_from(LIFTS),
        st.sampled_from(COINS),
        filters(),
        is_telling,
        thresholds(),
        bulk(),
    )
    if draws_for_interpreter():
        tiny = sampled_trees(one, min(max_requests, 1), INTERPRETED_STARS_ONE_IN, largest=3)
        small = sampled_trees(one, min(max_requests, 2), INTERPRETED_STARS_ONE_IN, largest=SMALL_TREES)
        return mostly(tiny, small, one_in=2)
    return sampled_trees(one, max_requests)


@composite
def _logits(draw: DrawFn, drawn: Trees[Draw], vocab: int) -> Array:
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


def _coins(kind: str, source: Bulk, width: int, is_telling: bool) -> Array:
    """Return so many coins, and the final one."""
    coins = uniform_coins(source, width + 1)
    if is_telling:
        coins[:-1], coins[-1] = COIN_STEP, LARGEST_COIN
    elif kind == "low":
        coins[:-1] /= 16
    elif kind == "extreme":
        coins = np.array((0.0, COIN_STEP, LARGEST_COIN))[source.integers(width + 1, 0, 2)]
    return coins.astype(np.float32)


@dataclass(frozen=True)
class ChainDraw:
    """How one chain is made: its number of drafts, its logits, where its drafts come from, its coins and parameters.

    ``draft_temperature`` is None for that of the target. A telling request is as in ``Draw``: its filters cut its first
    row, coins accept whatever is kept, and the last token is the last one that is kept.
    """

    count: int
    logits: str
    draft_rows: str
    drafts: str
    coins: str
    filters: Filters
    draft_temperature: float | None
    is_telling: bool
    source: Bulk


@dataclass(frozen=True)
class LogitChain:
    """One request of a ragged batch: drafts, coins with the final one, rows of both sides, and parameters."""

    tokens: Array
    coins: Array
    draft_logits: Array
    target_logits: Array
    filters: Filters
    draft_temperature: float


@composite
def chain_speculative_sampling_from_logits(
    draw: DrawFn, max_requests: int = MAX_REQUESTS, is_whole: bool = False, rows_read: RowsRead = OF_WALKS
) -> Arguments:
    """Draw ragged chains of greedy, filtered and plain requests, against rows that agree, differ, or are absent.

    The draft's vocabulary is the target's, a smaller or a larger one. Some chains have no drafts, or -1 among them.
    Rows that the walk does not read may hold anything.

    Parameters
    ----------
    max_requests : int
        The largest batch.
    is_whole : bool
        All rows are laws, those that are not read too.
    rows_read : mapping
        Which rows of either side are read.
    """
    is_small = draws_for_interpreter()
    vocab = draw(vocab_sizes())
    most = 3 if vocab > LARGEST_CHEAP_VOCABULARY or is_small else draw(sized("draft", st.sampled_from((1, 3, 6, 33))))
    draft_vocab = draw(mostly(st.just(vocab), st.integers(1, vocab + 5), one_in=2))
    one = st.builds(
        ChainDraw,
        st.integers(0, most),
        st.sampled_from(LOGIT_KINDS),
        st.sampled_from(DRAFT_ROWS),
        st.sampled_from(DRAFTS),
        st.sampled_from(COINS),
        filters(),
        mostly(st.none(), st.sampled_from((0.0, *TEMPERATURES)), one_in=3),
        st.booleans(),
        bulk(),
    )
    requests = [
        _chain(drawn, vocab, draft_vocab) for drawn in draw(batch(one, min(max_requests, 2 if is_small else 6)))
    ]
    counts = [len(chain.tokens) for chain in requests]
    target_dtype, draft_dtype = draw(st.sampled_from(LOGIT_DTYPES)), draw(st.sampled_from(LOGIT_DTYPES))
    is_certain = draw(mostly(st.just(False), st.just(True), one_in=4))
    parameters = filters_of([chain.filters for chain in requests])
    arguments = {
        "draft_tokens": _joined([chain.tokens for chain in requests]).astype(np.int64),
        "cu_num_drafts": np.cumsum([0, *counts]).astype(np.int32),
        "uniform_samples": _joined([chain.coins[:-1] for chain in requests]).astype(np.float32),
        "uniform_samples_for_final_sampling": np.array([chain.coins[-1] for chain in requests], dtype=np.float32),
        "draft_logits": None
        if is_certain
        else _joined([chain.draft_logits for chain in requests], draft_vocab).astype(draft_dtype),
        "target_logits": _joined([chain.target_logits for chain in requests], vocab).astype(target_dtype),
        "temperature": parameters["temperature"],
        **{name: draw(mostly(st.just(parameters[name]), st.none(), one_in=4)) for name in ("top_k", "top_p", "min_p")},
        "draft_temperature": np.array([chain.draft_temperature for chain in requests], dtype=np.float32),
        "max_num_drafts": nearest("draft", max(counts, default=0) + draw(st.sampled_from((0, 0, 0, 1, 4)))),
    }
    unread = draw(st.sampled_from(UNREAD))
    return arguments if is_whole or unread is None else _with_unread_logits(arguments, unread, rows_read)


def chain_block_verification_from_logits(
    max_requests: int = MAX_REQUESTS, is_whole: bool = False
) -> SearchStrategy[Arguments]:
    """Return a strategy of the same chains for a block, which reads other rows."""
    return chain_speculative_sampling_from_logits(max_requests, is_whole, OF_BLOCKS)


def _with_unread_logits(arguments: Arguments, value: float, rows_read: RowsRead) -> Arguments:
    """Return the call with one value everywhere in the rows that its walk does not read."""
    changed = dict(arguments)
    for name, is_read in rows_read.items():
        if arguments[name] is not None:
            changed[name] = arguments[name].copy()
            changed[name][~is_read(arguments)] = value
    return changed


def _chain(one: ChainDraw, vocab: int, draft_vocab: int) -> LogitChain:
    """Return one chain; a row of the draft is of its own, near that of the target, or the same as far as it goes."""
    source, parameters = one.source, one.filters
    is_telling = one.is_telling and parameters.temperature > 0
    kind = "eighths" if is_telling and one.logits != "masked" else one.logits
    target = np.stack([logit_row(kind, vocab, source) for _ in range(one.count + 1)])
    if is_telling:
        target = -np.sort(-target, axis=1)
        chosen = ordered_filters if source.integer(0, 3) == 3 else single_filter
        parameters = chosen(target[0], source) or parameters
    if parameters.temperature == 0:
        tie_largest(target, source)
    draft = np.stack([logit_row(one.logits, draft_vocab, source) for _ in range(one.count + 1)])[:-1]
    common = min(vocab, draft_vocab)
    if one.draft_rows != "own":
        draft[:, :common] = target[:-1, :common]
        draft[np.isneginf(draft).all(axis=1), 0] = 0.0
    if one.draft_rows == "near":
        draft += source.eighths(draft.shape, -8, 8)
    tokens = source.integers(one.count, 0, vocab - 1)
    if one.drafts == "likely":
        tokens = draft[:, :common].argmax(axis=1)
    if one.drafts == "wanted":
        tokens = target[:-1].argmax(axis=1)
    if one.drafts == "impossible":
        tokens = np.where(source.integers(one.count, 0, 1) == 1, draft[:, :common].argmin(axis=1), vocab - 1)
    is_free = one.draft_rows != "same" and one.coins != "extreme" and parameters.temperature > 0
    rejects = is_free and source.integer(0, 1) == 0
    if rejects:
        tokens = _overestimated(target, draft, common, source)
    if not limits().takes_zero_proposals:
        draft[np.isneginf(draft[:, :common]).all(axis=1), 0] = 0.0
        is_possible = (tokens < common) & ~np.isneginf(draft[np.arange(one.count), np.minimum(tokens, common - 1)])
        tokens = np.where(is_possible, tokens, draft[:, :common].argmax(axis=1))
    if one.count and source.integer(0, 3) == 3:
        place = source.integer(0, one.count - 1)
        tokens[place : None if source.integer(0, 1) else place + 1] = -1
    temperature = parameters.temperature if one.draft_temperature is None else one.draft_temperature
    coins = _coins(one.coins, source, one.count, is_telling)
    if rejects:
        coins = np.full_like(coins, LARGEST_COIN)
        coins[-1] = uniform_coins(source, 1)[0]
    return LogitChain(tokens, coins, draft, target, parameters, temperature)


def _overestimated(target: Array, draft: Array, common: int, source: Bulk) -> Array:
    """Return drafts for coins that reject: what the draft likes most, or what the target does, also where it may not.

    In one chain of three the draft's rows forbid them.
    """
    kind = source.integer(0, 2)
    tokens: Array = draft[:, :common].argmax(axis=1) if kind == 0 else target[:-1].argmax(axis=1)
    if kind == 2 and common > 1:
        rows = np.arange(len(tokens))
        draft[rows, (tokens + 1) % common] = 0.0
        draft[rows[tokens < common], tokens[tokens < common]] = -np.inf
    return tokens


def _joined(parts: list[Array], *trailing: int) -> Array:
    return np.concatenate([np.zeros((0, *trailing)), *parts])


@composite
def rows_that_leave_nothing(draw: DrawFn) -> Arguments:
    """Draw chains of one draft that neither side can choose, before rows that are the same on both."""
    rows, tokens = draw(_impossible_drafts())
    return draw(_single_drafts(rows, rows, tokens))


@composite
def drafts_that_only_the_target_likes(draw: DrawFn) -> Arguments:
    """Draw chains of one draft that its own row cannot choose, and the target chooses nearly always.

    The draft's row lacks one more token, so that without the draft something is left too.
    """
    rows, tokens = draw(_impossible_drafts())
    target = rows.copy()
    if rows.shape[1] > 2:
        rows[np.arange(len(tokens)), (tokens + 1) % rows.shape[1]] = -np.inf
    target[np.arange(len(tokens)), tokens] = LIKED
    return draw(_single_drafts(target, rows, tokens, least_coin=1))


@composite
def unlikely_drafts_of_equal_rows(draw: DrawFn, count: int = 12) -> Arguments:
    """Draw chains of one draft, the least likely token of rows that are the same on both sides, and the largest coin.

    The first token is forbidden, so that no one can choose it.
    """
    source, vocab = draw(bulk()), draw(st.sampled_from((3, 8, 40)))
    rows = np.stack([logit_row("fine", vocab, source) for _ in range(count)])
    tokens = source.integers(count, 1, vocab - 1)
    rows[np.arange(count), tokens] = rows.min(axis=1) - source.integers(count, 1, 40)
    rows[:, 0] = -np.inf
    arguments = draw(_single_drafts(rows.astype(np.float32), rows.astype(np.float32), tokens))
    return {**arguments, "uniform_samples": np.full(count, LARGEST_COIN, dtype=np.float32)}


@composite
def _impossible_drafts(draw: DrawFn, count: int = 12) -> tuple[Array, Array]:
    source, vocab = draw(bulk()), draw(st.sampled_from((2, 3, 8, 40)))
    rows = np.stack([logit_row("fine", vocab, source) for _ in range(count)])
    tokens = source.integers(count, 0, vocab - 1)
    tokens[: count // 2] = vocab - 1
    rows[np.arange(count), tokens] = -np.inf
    return rows.astype(draw(st.sampled_from(LOGIT_DTYPES))), tokens


@composite
def _single_drafts(draw: DrawFn, target: Array, drafts: Array, tokens: Array, least_coin: int = 0) -> Arguments:
    source, count = draw(bulk()), len(tokens)
    temperature = (source.integers(count, 1, 16) / 8).astype(np.float32)
    return {
        "draft_tokens": tokens,
        "cu_num_drafts": np.arange(count + 1, dtype=np.int32),
        "uniform_samples": (source.integers(count, 0, 15) / 16).astype(np.float32),
        "uniform_samples_for_final_sampling": (source.integers(count, least_coin, 15) / 16).astype(np.float32),
        "draft_logits": drafts,
        "target_logits": target.repeat(2, axis=0),
        "temperature": temperature,
        **dict.fromkeys(("top_k", "top_p", "min_p")),
        "draft_temperature": temperature,
        "max_num_drafts": 1,
    }


def calls() -> SearchStrategy[tuple[str, Arguments]]:
    """Return a strategy of calls of either operation, each with its name."""
    return one_of_evenly(
        verify_tree_greedy_from_logits().map(lambda case: ("verify_tree_greedy_from_logits", case)),
        verify_tree_sampled_from_logits().map(lambda case: ("verify_tree_sampled_from_logits", case)),
    )
