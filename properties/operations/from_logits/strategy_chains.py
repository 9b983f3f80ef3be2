"""Strategies of ragged chains straight from logits."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from specsim.contracts.chains import (
    block_draft_logits_read,
    block_target_logits_read,
    draft_logits_read,
    target_logits_read,
)
from specsim.host.sampling import COIN_STEP, LARGEST_COIN
from specsim.properties.composite import composite
from specsim.properties.operations.acceptance.strategy_chains import COINS as EXTREMES
from specsim.properties.operations.acceptance.strategy_chains import (
    LARGEST_CHEAP_VOCABULARY,
    Chain,
    RowsRead,
    chain_block_verification,
    in_a_batch,
    joined,
    single_drafts,
    with_unread_rows,
)
from specsim.properties.operations.probabilities.strategy import LOGIT_DTYPES, LOGIT_KINDS, logit_row, tie_largest
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly
from specsim.properties.strategies.distributions import uniform_coins, vocab_sizes, with_a_coin_of_0
from specsim.properties.strategies.filters import (
    TEMPERATURES,
    Filters,
    filters,
    filters_of,
    ordered_filters,
    single_filter,
)
from specsim.properties.strategies.limits import limits, sized
from specsim.properties.strategies.scale import draws_for_interpreter
from specsim.properties.strategies.topologies import batch

COINS = ("uniform", "uniform", "low", "extreme")
DRAFT_ROWS = ("own", "own", "near", "same")
DRAFTS = ("likely", "likely", "random", "wanted", "impossible")
HOT = Filters(20.0, top_k=2**30, top_p=1.0, min_p=0.0)
"""Parameters that leave all tokens of a row about as likely as each other."""
COLD = 0.05
"""A temperature that leaves a row nearly certain."""
LIKED = 80.0
"""A logit whose token has all but a thousandth of a row of others, however warm."""
UNREAD = (None, 0.0, float("nan"), float("inf"), -float("inf"))
"""What stands in the rows that a chain's walk does not read: logits, equal ones, or what is no law."""

OF_WALKS: RowsRead = {"draft_logits": draft_logits_read, "target_logits": target_logits_read}
OF_BLOCKS: RowsRead = {"draft_logits": block_draft_logits_read, "target_logits": block_target_logits_read}
"""Which rows of either side are read where drafts are judged one after another, and where they are judged together."""


def coins_of(kind: str, source: Bulk, width: int, is_telling: bool) -> Array:
    """Return so many coins, and the final one."""
    coins = uniform_coins(source, width + 1)
    if is_telling:
        coins[:-1], coins[-1] = COIN_STEP, LARGEST_COIN
    elif kind == "low":
        coins[:-1] /= 16
    elif kind == "extreme":
        coins = np.array(EXTREMES)[source.integers(width + 1, 0, 2)]
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
    """One request of a ragged batch from logits, with its parameters."""

    chain: Chain
    filters: Filters
    draft_temperature: float


@composite
def chain_speculative_sampling_from_logits(
    draw: st.DrawFn, max_requests: int = MAX_REQUESTS, is_whole: bool = False, rows_read: RowsRead = OF_WALKS
) -> Arguments:
    """Draw ragged chains of greedy, filtered and plain requests, against rows that agree, differ, or are absent.

    The draft's vocabulary is the target's, a smaller or a larger one. In one chain of six a cold draft stands beside a
    hot target, so that the law of the one at the temperature of the other is far from its own. Some chains have no
    drafts, or -1 among them. Rows that the walk does not read may hold anything.

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
        mostly(st.none(), st.sampled_from((0.0, *TEMPERATURES, 0.0)), one_in=3),
        st.booleans(),
        bulk(),
    )
    apart = one.map(lambda drawn: replace(drawn, filters=HOT, draft_temperature=COLD, is_telling=False))
    several = batch(mostly(one, apart, one_in=6), min(max_requests, 2 if is_small else 6))
    requests = [_chain(drawn, vocab, draft_vocab) for drawn in draw(several)]
    target_dtype, draft_dtype = draw(st.sampled_from(LOGIT_DTYPES)), draw(st.sampled_from(LOGIT_DTYPES))
    is_certain = draw(mostly(st.just(False), st.just(True), one_in=4))
    parameters = filters_of([chain.filters for chain in requests])
    arguments = {
        **draw(in_a_batch([one.chain for one in requests])),
        "draft_logits": None if is_certain else joined([one.chain.draft for one in requests], draft_dtype, draft_vocab),
        "target_logits": joined([one.chain.target for one in requests], target_dtype, vocab),
        "temperature": parameters["temperature"],
        **{name: draw(mostly(st.just(parameters[name]), st.none(), one_in=4)) for name in ("top_k", "top_p", "min_p")},
        "draft_temperature": np.array([chain.draft_temperature for chain in requests], dtype=np.float32),
    }
    unread = draw(st.sampled_from(UNREAD))
    return arguments if is_whole or unread is None else with_unread_rows(arguments, unread, rows_read)


def chain_block_verification_from_logits(
    max_requests: int = MAX_REQUESTS, is_whole: bool = False
) -> st.SearchStrategy[Arguments]:
    """Return a strategy of the same chains for a block, which reads other rows; two of three batches are on trial."""
    plain = chain_speculative_sampling_from_logits(max_requests, is_whole, OF_BLOCKS)
    return mostly(_blocks_on_trial(max_requests), plain, one_in=3)


@composite
def _blocks_on_trial(draw: st.DrawFn, max_requests: int) -> Arguments:
    """Draw blocks of probabilities with coins beside the edges of their fronts, as logits at some temperature.

    Neither side is filtered. A larger vocabulary of the draft ends in tokens that it cannot choose; in every other
    batch one request's drafts are certain, and in every fourth a request is greedy.
    """
    of_laws = draw(chain_block_verification(min(max_requests, 2 if draws_for_interpreter() else 6), is_whole=True))
    counts = np.diff(of_laws["cu_num_drafts"])
    draft_probs, target_probs = of_laws.pop("draft_probs"), of_laws.pop("target_probs")
    source = draw(bulk())
    temperature, draft_temperature = (
        source.integers(len(counts), 1, 4).astype(np.float32) / np.float32(2) for _ in range(2)
    )
    draft_logits = None
    if draft_probs is not None:
        of_drafts = _logits_of(draft_probs, draft_temperature.repeat(counts)).astype(np.float32)
        more = max(0, source.integer(-2, 2))
        draft_logits = np.pad(of_drafts, ((0, 0), (0, more)), constant_values=-np.inf)
    target_logits = _logits_of(target_probs, temperature.repeat(counts + 1)).astype(np.float32)
    if len(counts) and source.integer(0, 1) == 1:
        draft_temperature[source.integer(0, len(counts) - 1)] = 0
    if len(counts) and source.integer(0, 3) == 3:
        temperature[source.integer(0, len(counts) - 1)] = 0
    return {
        **of_laws,
        "draft_logits": draft_logits,
        "target_logits": target_logits,
        "temperature": temperature,
        **dict.fromkeys(("top_k", "top_p", "min_p")),
        "draft_temperature": draft_temperature,
    }


def _logits_of(probabilities: Array, temperature: Array) -> Array:
    """Return logits of rows of probabilities at a temperature each; -inf of 0."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities.astype(np.float64)) * temperature[:, None].astype(np.float64)


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
    coins = coins_of(one.coins, source, one.count, is_telling)
    if rejects:
        coins = np.full_like(coins, LARGEST_COIN)
        coins[-1] = uniform_coins(source, 1)[0]
    elif one.coins == "low":
        coins = with_a_coin_of_0(coins, source)
    return LogitChain(Chain(tokens, coins, draft, target), parameters, temperature)


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


@composite
def rows_that_leave_nothing(draw: st.DrawFn) -> Arguments:
    """Draw chains of one draft that neither side can choose, before rows that are the same on both."""
    rows, tokens = draw(_impossible_drafts())
    return draw(_single_drafts(rows, rows, tokens))


@composite
def drafts_that_only_the_target_likes(draw: st.DrawFn) -> Arguments:
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
def unlikely_drafts_of_equal_rows(draw: st.DrawFn, count: int = 12) -> Arguments:
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
def _impossible_drafts(draw: st.DrawFn, count: int = 12) -> tuple[Array, Array]:
    source, vocab = draw(bulk()), draw(st.sampled_from((2, 3, 8, 40)))
    rows = np.stack([logit_row("fine", vocab, source) for _ in range(count)])
    tokens = source.integers(count, 0, vocab - 1)
    tokens[: count // 2] = vocab - 1
    rows[np.arange(count), tokens] = -np.inf
    return rows.astype(draw(st.sampled_from(LOGIT_DTYPES))), tokens


@composite
def _single_drafts(draw: st.DrawFn, target: Array, drafts: Array, tokens: Array, least_coin: int = 0) -> Arguments:
    source, count = draw(bulk()), len(tokens)
    temperature = (source.integers(count, 1, 16) / 8).astype(np.float32)
    coins, final_coins = (source.integers(count, least, 15) / 16 for least in (0, least_coin))
    return {
        **single_drafts(tokens, coins, final_coins),
        "draft_logits": drafts,
        "target_logits": target.repeat(2, axis=0),
        "temperature": temperature,
        **dict.fromkeys(("top_k", "top_p", "min_p")),
        "draft_temperature": temperature,
    }
