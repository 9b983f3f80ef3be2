"""Strategies of the operations on rows of logits and probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from ml_dtypes import bfloat16

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly, overridden
from specsim.properties.strategies.distributions import ROWS, probability_row, vocab_sizes
from specsim.properties.strategies.filters import MIN_P, TOP_P, Filters, filters, filters_of, ordered_filters
from specsim.properties.strategies.limits import limits, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import batch

LOGIT_DTYPES: tuple[Any, ...] = (np.float32, bfloat16)
LOGIT_KINDS = ("eighths", "fine", "peaked", "equal", "masked", "few")
MOST_ROWS = 8
BELOW_ZERO = 3.0
"""Taken away from each logit of every other row with forbidden tokens, it leaves none that is positive."""
SEVERAL_WORDS = (33, 40, 64, 65, 96)


@composite
def prepare_logits(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw logits of several nodes a request with any of the penalties, the bias and the mask absent.

    The additive penalty of some requests is zero everywhere. Every other vocabulary takes several words of the mask.
    """
    sources = draw(batch(bulk(), max_requests))
    vocab = draw(sized("vocab", mostly(vocab_sizes(), st.sampled_from(SEVERAL_WORDS), one_in=2)))
    count = draw(sized("node", st.integers(1, 5)))
    num_requests = len(sources)
    source = draw(bulk())
    logits = draw(_logits(sources, count, vocab))

    def of_request(low: int, high: int) -> Array:
        return source.eighths((num_requests, vocab), low, high)

    scale = np.float32(2) ** source.integers((num_requests, vocab), -1, 1).astype(np.float32)
    scale = np.where(source.integers(scale.shape, 0, 2) == 0, np.float32(1.3), scale).astype(np.float32)
    mask = source.integers((num_requests * count, -(-vocab // 32)), -(2**31), 2**31 - 1, np.int32)
    additive = of_request(-24, 0) * np.float32(0.1)
    additive[source.integers(num_requests, 0, 2) == 0] = 0
    bias = draw(overridden(of_request(-80, 80), (float("-inf"), 0.0, 100.0)))
    return {
        "logits": logits,
        "scaling_penalty": draw(_or_none(scale)),
        "additive_penalty": draw(_or_none(additive)),
        "logit_bias": draw(_or_none(bias)),
        "vocab_mask": draw(_or_none(draw(overridden(mask, (-1, 0, 1, -(2**31)))))),
        "num_draft_tokens": count,
    }


@composite
def top_k_renorm(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, and counts below, at and, for every fourth row, right beyond the vocabulary."""
    probabilities = draw(rows_of_mass(max_requests))
    vocab, source = probabilities.shape[1], draw(bulk())
    counts = source.integers(len(probabilities), 1, vocab + 1, np.int32)
    counts[source.integers(len(probabilities), 0, 3) == 3] = vocab + 1
    return {"probabilities": probabilities, "top_k": draw(overridden(counts, (1, 2, vocab, 2**30)))}


@composite
def top_p_renorm(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, and shares that some of their sums reach exactly."""
    probabilities = draw(rows_of_mass(max_requests))
    return {"probabilities": probabilities, "top_p": draw(shares(len(probabilities), 1, TOP_P))}


@composite
def min_p_renorm(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, and shares of the largest entry that others have exactly."""
    probabilities = draw(rows_of_mass(max_requests))
    return {"probabilities": probabilities, "min_p": draw(shares(len(probabilities), 0, (*MIN_P, 0.0)))}


@composite
def target_probabilities(
    draw: DrawFn, max_requests: int = MAX_REQUESTS, of_request: SearchStrategy[Filters] | None = None, one_in: int = 3
) -> Arguments:
    """Draw logits of several nodes a request, and a mixture of greedy, filtered and plain requests.

    Half of the rows of greedy requests have several largest logits.

    Parameters
    ----------
    max_requests : int
        The largest batch.
    of_request : strategy or None
        Sampling parameters of a request; None for any.
    one_in : int
        One request in so many has filters whose order decides about one of its rows, if it has such a row.
    """
    vocab, count = draw(vocab_sizes()), draw(sized("node", st.integers(1, 5)))
    requests = draw(batch(st.tuples(bulk(), filters() if of_request is None else of_request), max_requests))
    logits = draw(_logits([source for source, _ in requests], count, vocab))
    chosen = []
    for place, (source, one) in enumerate(requests):
        rows = logits[place * count : (place + 1) * count]
        if one.temperature == 0:
            tie_largest(rows, source)
        elif source.integer(1, one_in) == one_in:
            one = ordered_filters(rows[source.integer(0, count - 1)], source) or one
        chosen.append(one)
    return {"logits": logits, **filters_of(chosen), "num_draft_tokens": count}


@made_once
@composite
def rows_of_mass(draw: DrawFn, max_requests: int = MAX_REQUESTS, kinds: Sequence[str] = ROWS) -> Array:
    """Draw rows of probabilities; some add up to something else than 1."""
    vocab = draw(vocab_sizes())
    whole = st.just(1.0)
    scale = whole if limits().is_normalised else mostly(whole, st.sampled_from((0.5, 3.0, 2.0**-30)), one_in=3)
    one = st.tuples(st.sampled_from(kinds), scale, bulk())
    rows = [
        probability_row(kind, vocab, source) * np.float32(scale)
        for kind, scale, source in draw(batch(one, max_requests and MOST_ROWS, "token"))
    ]
    return np.array(rows, dtype=np.float32).reshape(len(rows), vocab)


def logit_row(kind: str, vocab: int, source: Bulk) -> Array:
    """Return one row of logits in float64; a token of it is always possible."""
    if kind == "equal":
        return np.full(vocab, source.integer(-8, 8) / 8)
    if kind == "fine":
        return source.integers(vocab, -(2**20), 2**20) / 2.0**18
    if kind == "peaked":
        return source.integers(vocab, -512, 512) / 8.0
    row = source.integers(vocab, -16, 16) / 8.0
    if kind in ("masked", "few"):
        most = vocab if kind == "masked" else min(3, vocab)
        kept = source.order(vocab)[: source.integer(1, most)]
        row[np.setdiff1d(np.arange(vocab), kept)] = -np.inf
        if source.integer(0, 1):
            row -= BELOW_ZERO
    return row


def tie_largest(rows: Array, source: Bulk) -> None:
    """Write the largest logit of about every other row to one more place."""
    chosen = np.flatnonzero(source.integers(len(rows), 0, 1))
    rows[chosen, source.integers(len(chosen), 0, rows.shape[1] - 1)] = rows[chosen].max(axis=1)


@composite
def _logits(draw: DrawFn, sources: list[Bulk], count: int, vocab: int) -> Array:
    kinds = draw(st.lists(st.sampled_from(LOGIT_KINDS), min_size=len(sources), max_size=len(sources)))
    rows = [logit_row(kind, vocab, source) for kind, source in zip(kinds, sources, strict=True) for _ in range(count)]
    return np.array(rows, dtype=np.float64).reshape(len(rows), vocab).astype(draw(st.sampled_from(LOGIT_DTYPES)))


@composite
def shares(draw: DrawFn, count: int, least: int, specials: tuple[float, ...]) -> Array:
    """Draw multiples of an eighth, at least so many eighths, and now and then another share."""
    return draw(overridden(draw(bulk()).eighths(count, least, 8), specials))


def shares_of(probabilities: Array, source: Bulk) -> Array:
    """Return for each row the share of one of its prefix sums in its mass.

    It is below 1 and one that float32 holds exactly; a half where there is none.
    """
    chosen = []
    for row in probabilities.astype(np.float64):
        shares = np.unique(np.cumsum(np.sort(row[row > 0])[::-1]) / row.sum())
        exact = shares[(shares < 1) & (shares == shares.astype(np.float32))]
        chosen.append(exact[source.integer(0, len(exact) - 1)] if len(exact) else 0.5)
    return np.array(chosen, dtype=np.float32)


def with_entries_at(probabilities: Array, least: Array, source: Bulk) -> Array:
    """Return the rows with one entry, but not a largest one, at its share of the largest."""
    rows = probabilities.copy()
    for row, share in zip(rows, least, strict=True):
        smaller = np.flatnonzero(row < row.max(initial=0.0))
        if len(smaller):
            row[smaller[source.integer(0, len(smaller) - 1)]] = row.max() * share
    return rows


def _or_none(values: Array) -> SearchStrategy[Array | None]:
    return mostly(st.just(values), st.none(), one_in=3)
