"""Strategies of the operations on rows of logits and probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from ml_dtypes import bfloat16

from specsim.host.sampling import GREATEST_TEMPERATURE, LEAST_TEMPERATURE
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk, mostly, overridden
from specsim.properties.strategies.distributions import ROWS, probability_row, vocab_sizes
from specsim.properties.strategies.topologies import batch

LOGIT_DTYPES: tuple[Any, ...] = (np.float32, bfloat16)
LOGIT_KINDS = ("eighths", "fine", "peaked", "equal", "masked", "few")
TEMPERATURES = (1.0, 0.7, 0.5, 2.0, 20.0, 0.05, LEAST_TEMPERATURE, GREATEST_TEMPERATURE)
TOP_K = (2, 3, 4, 5, 7, 33, 50, 2**30, 2**31 - 1)
TOP_P = (0.95, 0.9, 0.7, 0.5, 0.1, 2.0**-20)
MIN_P = (0.05, 0.3, 0.75, 1.0)
EXACT_SHARES = tuple(eighth / 8 for eighth in range(1, 9))
MOST_ROWS = 8


@dataclass(frozen=True)
class Filters:
    """Sampling parameters of one request."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float


@st.composite
def prepare_logits(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw logits of several nodes a request with any of the penalties, the bias and the mask absent.

    The additive penalty of some requests is zero everywhere.
    """
    vocab, count = draw(vocab_sizes()), draw(st.integers(1, 5))
    sources = draw(batch(bulk(), max_requests))
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


@st.composite
def top_k_renorm(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, and counts below, at and beyond the vocabulary."""
    probabilities = draw(rows_of_mass(max_requests))
    vocab = probabilities.shape[1]
    counts = draw(bulk()).integers(len(probabilities), 1, vocab + 1, np.int32)
    return {"probabilities": probabilities, "top_k": draw(overridden(counts, (1, 2, vocab, 2**30)))}


@st.composite
def top_p_renorm(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, and shares that some of their sums reach exactly."""
    probabilities = draw(rows_of_mass(max_requests))
    return {"probabilities": probabilities, "top_p": draw(shares(len(probabilities), 1, TOP_P))}


@st.composite
def min_p_renorm(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows with ties, and shares of the largest entry that others have exactly."""
    probabilities = draw(rows_of_mass(max_requests))
    return {"probabilities": probabilities, "min_p": draw(shares(len(probabilities), 0, (*MIN_P, 0.0)))}


@st.composite
def target_probabilities(draw: DrawFn, max_requests: int = MAX_REQUESTS, is_cutting: bool = False) -> Arguments:
    """Draw logits of several nodes a request, and a mixture of greedy, filtered and plain requests.

    With ``is_cutting`` every request has several filters that cut.
    """
    vocab, count = draw(vocab_sizes()), draw(st.integers(1, 5))
    requests = draw(batch(st.tuples(bulk(), cutting_filters() if is_cutting else filters()), max_requests))
    return {
        "logits": draw(_logits([source for source, _ in requests], count, vocab)),
        **filters_of([one for _, one in requests]),
        "num_draft_tokens": count,
    }


@st.composite
def rows_of_mass(draw: DrawFn, max_requests: int = MAX_REQUESTS, kinds: Sequence[str] = ROWS) -> Array:
    """Draw rows of probabilities; some add up to something else than 1."""
    vocab = draw(vocab_sizes())
    one = st.tuples(
        st.sampled_from(ROWS), mostly(st.just(1.0), st.sampled_from((0.5, 3.0, 2.0**-30)), one_in=5), bulk()
    )
    rows = [
        probability_row(kind, vocab, source) * np.float32(scale)
        for kind, scale, source in draw(batch(one, max_requests and MOST_ROWS))
    ]
    return np.array(rows, dtype=np.float32).reshape(len(rows), vocab)


def filters() -> SearchStrategy[Filters]:
    """Return a strategy of sampling parameters: greedy, plain, with one or several filters, and with all that cut."""
    usual = st.builds(
        Filters,
        mostly(st.sampled_from(TEMPERATURES), st.just(0.0), one_in=4),
        mostly(st.just(2**30), st.one_of(st.just(1), st.sampled_from(TOP_K)), one_in=2),
        mostly(st.just(1.0), st.sampled_from(TOP_P), one_in=2),
        mostly(st.just(0.0), st.sampled_from(MIN_P), one_in=4),
    )
    return mostly(usual, cutting_filters(), one_in=3)


def cutting_filters() -> SearchStrategy[Filters]:
    """Return a strategy of sampling parameters whose filters all cut, so that their order shows."""
    return st.builds(
        Filters,
        st.sampled_from((1.0, 0.7, 2.0)),
        st.sampled_from((2, 3, 5, 2**30)),
        st.sampled_from((0.9, 0.7, 0.5)),
        st.sampled_from((0.0, 0.05, 0.3, 0.5, 0.75)),
    )


def filters_of(requests: list[Filters]) -> Arguments:
    """Return the sampling parameters of a batch."""
    return {
        "temperature": np.array([one.temperature for one in requests], dtype=np.float32),
        "top_k": np.array([one.top_k for one in requests], dtype=np.int32),
        "top_p": np.array([one.top_p for one in requests], dtype=np.float32),
        "min_p": np.array([one.min_p for one in requests], dtype=np.float32),
    }


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
    return row


@st.composite
def _logits(draw: DrawFn, sources: list[Bulk], count: int, vocab: int) -> Array:
    kinds = draw(st.lists(st.sampled_from(LOGIT_KINDS), min_size=len(sources), max_size=len(sources)))
    rows = [logit_row(kind, vocab, source) for kind, source in zip(kinds, sources, strict=True) for _ in range(count)]
    logits = np.array(rows, dtype=np.float64).reshape(len(rows), vocab)
    return logits.astype(draw(st.sampled_from(LOGIT_DTYPES)))


@st.composite
def shares(draw: DrawFn, count: int, least: int, specials: tuple[float, ...]) -> Array:
    """Draw multiples of an eighth, at least so many eighths, and now and then another share."""
    eighths = draw(bulk()).eighths(count, least, 8)
    return draw(overridden(eighths, specials))


def shares_of(probabilities: Array, source: Bulk, is_mass: bool) -> Array:
    """Return for each row the share of one of its prefix sums, or of one of its entries, in its mass or its largest.

    It is below 1 and one that float32 holds exactly; a half where there is none.
    """
    chosen = []
    for row in probabilities.astype(np.float64):
        ranked = np.sort(row[row > 0])[::-1]
        values = np.cumsum(ranked) if is_mass else ranked
        shares = np.unique(values / (row.sum() if is_mass else ranked[0]))
        exact = shares[(shares < 1) & (shares == shares.astype(np.float32))]
        chosen.append(exact[source.integer(0, len(exact) - 1)] if len(exact) else 0.5)
    return np.array(chosen, dtype=np.float32)


def _or_none(values: Array) -> SearchStrategy[Array | None]:
    return mostly(st.just(values), st.none(), one_in=3)
