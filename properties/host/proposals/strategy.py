"""Steps that draw drafts: rows in the type of a step, vocabularies of the draft, candidates, mixed temperatures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from ml_dtypes import bfloat16

from specsim.host.proposals import LEAST_DRAFT_TEMPERATURE
from specsim.host.sampling import LEAST_TEMPERATURE
from specsim.properties.composite import composite
from specsim.properties.distribution import Outcome
from specsim.properties.strategies.arrays import Array, Bulk, bulk

SIZES = ((3, 2), (4, 2), (2, 3), (3, 2), (4, 1), (3, 3))
"""Columns of the draft's vocabulary, and drafts of each request."""

WARM = (0.5, 2.0, 0.25, 0.5, 1.0)
"""Temperatures that leave a row of a few units in a range where float32 tells its weights apart."""

NUM_OTHER_ROWS = 2
LEAST_DIFFERENCE = 2.0**-18
"""Of logits that temperatures below the least that is used tell apart in another way than that one does."""


@dataclass(frozen=True)
class WalkCase:
    """A walk in a buffer that an earlier walk has written.

    Parameters
    ----------
    arguments, earlier : dict
        Arguments of this walk and of the one before it, without the buffer; the batches have other requests.
    columns : int64 [request, draft, column]
        The target's token of every arrival.
    num_rows, vocab_size : int
        Size of the buffer, and of the target's vocabulary.
    exponents : float64 [request]
        Bound of this walk's logits over their temperature.
    """

    arguments: dict[str, Any]
    earlier: dict[str, Any]
    columns: Array
    num_rows: int
    vocab_size: int
    exponents: Array

    def buffer(self) -> Array:
        """Return a buffer that nothing has been recorded in."""
        return np.full((self.num_rows, self.columns.shape[1], self.vocab_size), -np.inf, dtype=np.float32)


@dataclass(frozen=True)
class ChainCase:
    """Chains that a draft model proposes token by token.

    Parameters
    ----------
    rows : tuple of dict
        Of each request the draft model's logits after any drafts, in target ids.
    arguments : dict
        The other arguments.
    columns : int64 [request, draft, column]
        The target's token of every arrival.
    exponents : float64 [request]
        Bound of the logits over their temperature.
    """

    rows: tuple[dict[Outcome, Array], ...]
    arguments: dict[str, Any]
    columns: Array
    exponents: Array


@composite
def markov_cases(draw: DrawFn) -> WalkCase:
    """Draw two walks by a bias; about half round to bfloat16, half keep candidates, half map a smaller vocabulary.

    One in six has logits that lie close together and temperatures below the least that is used.
    """
    (num_columns, num_drafts), num_requests = draw(st.sampled_from(SIZES)), draw(st.sampled_from((2, 1, 3)))
    is_close = draw(st.sampled_from((False, False, True, False, False, False)))
    dtype = np.float32 if is_close else draw(st.sampled_from((bfloat16, np.float32)))
    num_candidates = draw(st.sampled_from((None, num_columns - 1, 2, None)))
    target_ids, vocab_size = _vocabulary(draw, num_columns)
    source = draw(bulk())
    bias = source.integers((vocab_size, num_columns), -999, 999) / 1000
    if num_candidates is None:
        bias[:, 1:][source.integers((vocab_size, num_columns - 1), 0, 7) == 0] = -np.inf
    num_rows = num_requests + NUM_OTHER_ROWS

    def walk(count: int) -> dict[str, Any]:
        base = source.integers((count, num_drafts, num_columns), -64, 64) / 16
        return {
            "base_logits": (_close(base) if is_close else base).astype(dtype),
            "bias": (_close(bias) if is_close else bias).astype(np.float32),
            "roots": source.integers(count, 0, vocab_size - 1),
            "temperatures": _temperatures(draw, source, count, is_close),
            "target_ids": target_ids,
            "num_candidates": num_candidates,
            "request_rows": source.order(num_rows)[:count].astype(np.int64),
            "arrivals": _arrivals(source, (count, num_drafts, num_columns)),
        }

    earlier, arguments = walk(num_rows), walk(num_requests)
    ids = np.arange(num_columns) if target_ids is None else target_ids
    columns = np.tile(ids, (num_requests, num_drafts, 1))
    largest = 0.25 if is_close else 5
    exponents = largest / np.maximum(arguments["temperatures"], LEAST_DRAFT_TEMPERATURE)
    return WalkCase(arguments, earlier, columns, num_rows, vocab_size, exponents)


@composite
def selector_cases(draw: DrawFn) -> WalkCase:
    """Draw two walks among candidates, of a vocabulary that leaves room for others."""
    (num_candidates, num_drafts), num_requests = draw(st.sampled_from(SIZES)), draw(st.sampled_from((2, 1, 3)))
    vocab_size = num_candidates + draw(st.integers(1, 3))
    source = draw(bulk())
    num_rows = num_requests + NUM_OTHER_ROWS

    def walk(count: int) -> dict[str, Any]:
        shape = (count, num_drafts, num_candidates)
        candidates = [source.order(vocab_size)[:num_candidates] for _ in range(count * num_drafts)]
        return {
            "candidates": np.array(candidates, dtype=np.int64).reshape(shape),
            "scores": (source.integers((*shape, num_candidates), -999, 999) / 250).astype(np.float32),
            "temperatures": _temperatures(draw, source, count, False),
            "request_rows": source.order(num_rows)[:count].astype(np.int64),
            "arrivals": _arrivals(source, shape),
        }

    earlier, arguments = walk(num_rows), walk(num_requests)
    exponents = 4 / np.maximum(arguments["temperatures"], LEAST_DRAFT_TEMPERATURE)
    return WalkCase(arguments, earlier, arguments["candidates"], num_rows, vocab_size, exponents)


@composite
def chain_cases(draw: DrawFn) -> ChainCase:
    """Draw chains of a draft model; of two thirds filters drop tokens, half have a map of a smaller vocabulary."""
    (num_columns, num_drafts), num_requests = draw(st.sampled_from(SIZES)), draw(st.sampled_from((2, 1, 3)))
    dtype = draw(st.sampled_from((np.float32, bfloat16)))
    target_ids, vocab_size = _vocabulary(draw, num_columns)
    top_k = draw(st.sampled_from((num_columns - 1, num_columns, 2**30)))
    min_p = draw(st.sampled_from((0.0, 0.25, 0.0, 0.125)))
    source = draw(bulk())
    ids = np.arange(num_columns) if target_ids is None else target_ids
    fronts = [front for length in range(num_drafts) for front in product(ids.tolist(), repeat=length)]
    rows = tuple(
        {front: (source.integers(num_columns, -999, 999) / 500).astype(dtype) for front in fronts}
        for _ in range(num_requests)
    )
    temperatures = _temperatures(draw, source, num_requests, False)
    arguments = {
        "temperatures": temperatures,
        "top_k": np.full(num_requests, top_k, dtype=np.int32),
        "min_p": np.full(num_requests, min_p, dtype=np.float32),
        "target_ids": target_ids,
        "vocab_size": vocab_size,
        "arrivals": _arrivals(source, (num_requests, num_drafts, num_columns)),
    }
    exponents = 2 / np.maximum(temperatures, LEAST_DRAFT_TEMPERATURE)
    return ChainCase(rows, arguments, np.tile(ids, (num_requests, num_drafts, 1)), exponents)


def _several(cases: Callable[[], SearchStrategy[Any]]) -> SearchStrategy[Sequence[Any]]:
    """Draw three steps, because one of them has few of the choices."""
    return st.tuples(*[cases()] * 3)


several_markov_cases = partial(_several, markov_cases)
several_selector_cases = partial(_several, selector_cases)
several_chain_cases = partial(_several, chain_cases)
"""Draw a few walks by a bias, walks among candidates, and batches of chains."""


def _vocabulary(draw: DrawFn, num_columns: int) -> tuple[Array | None, int]:
    """Return a map of columns, in which no token keeps its number, or None; and how many tokens the target has."""
    if not draw(st.booleans()):
        return None, num_columns
    start = draw(st.integers(1, 2))
    vocab_size = num_columns + start
    return np.arange(vocab_size - 1, start - 1, -1, dtype=np.int64), vocab_size


def _temperatures(draw: DrawFn, source: Bulk, count: int, is_close: bool) -> Array:
    """Return temperatures of which the first is above 0; close logits have some below the least that is used."""
    warm = np.array((LEAST_TEMPERATURE, 2 * LEAST_TEMPERATURE) if is_close else WARM, dtype=np.float32)
    temperatures = warm[source.integers(count, 0, len(warm) - 1)]
    temperatures[1:][source.integers(count - 1, 0, 2) == 0] = 0
    return temperatures


def _arrivals(source: Bulk, shape: tuple[int, ...]) -> Array:
    return -np.log((source.integers(shape, 0, 254) + 0.5) / 255)


def _close(logits: Array) -> Array:
    """Return logits that differ by multiples of the least difference, of about an eighth."""
    whole = np.where(np.isinf(logits), 0, np.round(logits * 4))
    close = (logits.ndim == 3) / 8 + whole * LEAST_DIFFERENCE
    return np.where(np.isinf(logits), logits, close)
