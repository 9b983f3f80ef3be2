"""Drafts that are drawn, and the rows that verification takes them to be drawn from (semantics Q.5).

Every draw is a race: column k arrives at its exponential number divided by its weight, and the first to arrive is
drawn. So noise is an input, and a walk from draft to draft is a function.
"""

from collections.abc import Callable, Sequence
from math import exp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from specsim.host.sampling import GREATEST_TEMPERATURE, LEAST_TEMPERATURE
from specsim.rejection import Reason, SpecRejection, check_length, check_range

Array = NDArray[Any]

LEAST_DRAFT_TEMPERATURE = 1e-5
"""A temperature above 0 is raised to it, where a draft is drawn and where its row is read."""

NO_LOGIT = float("-inf")


class SampledChains(NamedTuple):
    """What ``sample_draft_chains`` hands to verification.

    Parameters
    ----------
    draft_tokens : int64 [request, draft]
        Target ids.
    draft_probs : float32 [request, draft, vocab]
        The law that each draft was drawn from, over the target's vocabulary; one-hot at temperature 0.
    """

    draft_tokens: Array
    draft_probs: Array


def walk_markov_drafts(
    base_logits: Array,
    bias: Array,
    roots: Array,
    temperatures: Array,
    target_ids: Array | None,
    num_candidates: int | None,
    request_rows: Array,
    arrivals: Array,
    recorded_logits: Array,
) -> Array:
    """Draw one draft after another from rows of one parallel forward, each corrected by the draft before it.

    Parameters
    ----------
    base_logits : float32 or bfloat16 [request, draft, column]
        The rows of the parallel forward, over the draft's vocabulary.
    bias : float32 [vocab, column]
        What the token before a draft adds to its row; -inf forbids a column.
    roots : int64 [request]
        The last committed tokens, which stand before the first drafts.
    temperatures : float32 [request]
        0 takes the first largest logit.
    target_ids : int64 [column] or None
        The target's token of every column; None where they are the same.
    num_candidates : int or None
        How many of the largest base logits of a row are kept, the first of equal ones first; None keeps all.
    request_rows : int64 [request]
        The row of each request in ``recorded_logits``.
    arrivals : float64 [request, draft, column]
        Exponential numbers, one a column of every draw.
    recorded_logits : float32 [row, draft, vocab]
        Written in the rows of the batch, and in no other: the logits that each draft was drawn from, before the
        temperature, -inf for all other tokens. What earlier walks have left there is not read.

    Returns
    -------
    draft_tokens : int64 [request, draft]
        Target ids.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS, ROW_OUT_OF_RANGE, DUPLICATE_ROW, TOKEN_OUT_OF_RANGE, BAD_CONFIGURATION,
        COUNT_OUT_OF_RANGE, TEMPERATURE_OUT_OF_RANGE, NEGATIVE_SCORE, NAN_SCORE, INFINITE_LOGIT; EMPTY_DISTRIBUTION: a
        row that is drawn from. Nothing is written then.

    Notes
    -----
    A corrected row is rounded to the type of ``base_logits``, and drawn from and recorded as that. Source: semantics
    Q.5.
    """
    num_requests, num_drafts, num_columns = base_logits.shape
    vocab_size = recorded_logits.shape[2]
    ids = _checked_ids(target_ids, num_columns, vocab_size)
    check_length("bias.shape", bias.shape, (vocab_size, num_columns), "a token adds to every column")
    check_length("roots.shape[0]", len(roots), num_requests)
    _check_logits("base_logits", base_logits)
    _check_logits("bias", bias)
    _check_tokens("roots", roots, vocab_size)
    if num_candidates is not None:
        because = "it is a number of columns"
        check_range(Reason.COUNT_OUT_OF_RANGE, "num_candidates", num_candidates, because, 1, num_columns)
    _check_batch(temperatures, request_rows, arrivals, recorded_logits, (num_requests, num_drafts, num_columns))
    draft_tokens = np.zeros((num_requests, num_drafts), dtype=np.int64)
    walked = np.full((num_requests, num_drafts, vocab_size), NO_LOGIT, dtype=np.float32)
    for request in range(num_requests):
        token = int(roots[request])
        for place in range(num_drafts):
            base = base_logits[request, place]
            row = _rounded(base.astype(np.float32) + bias[token], base_logits.dtype)
            kept = _largest(base.astype(np.float32).tolist(), num_candidates)
            row = [logit if column in kept else NO_LOGIT for column, logit in enumerate(row)]
            column = _drawn(row, float(temperatures[request]), arrivals[request, place].tolist())
            walked[request, place, ids] = row
            token = ids[column]
            draft_tokens[request, place] = token
    recorded_logits[request_rows] = walked
    return draft_tokens


def walk_selector_drafts(
    candidates: Array,
    scores: Array,
    temperatures: Array,
    request_rows: Array,
    arrivals: Array,
    recorded_logits: Array,
) -> Array:
    """Draw one draft after another among its candidates, by scores that depend on the candidate drawn before it.

    Parameters
    ----------
    candidates : int64 [request, draft, candidate]
        Target ids, none of them twice in a row.
    scores : float32 [request, draft, candidate, candidate]
        The logits of a draft's candidates, by which candidate the draft before it was; before the first draft that
        is candidate 0.
    temperatures : float32 [request]
        0 takes the first largest score.
    request_rows : int64 [request]
        The row of each request in ``recorded_logits``.
    arrivals : float64 [request, draft, candidate]
        Exponential numbers, one a candidate of every draw.
    recorded_logits : float32 [row, draft, vocab]
        As in ``walk_markov_drafts``: the scores that each draft was drawn by, -inf for all other tokens.

    Returns
    -------
    draft_tokens : int64 [request, draft]
        Target ids.

    Raises
    ------
    SpecRejection
        As ``walk_markov_drafts``. Nothing is written then.

    Notes
    -----
    Source: semantics Q.5.
    """
    num_requests, num_drafts, num_candidates = candidates.shape
    vocab_size = recorded_logits.shape[2]
    because = "every candidate has one of each candidate before it"
    check_length("scores.shape", scores.shape, (*candidates.shape, num_candidates), because)
    _check_logits("scores", scores)
    for row in candidates.reshape(-1, num_candidates):
        _checked_ids(row, num_candidates, vocab_size)
    _check_batch(temperatures, request_rows, arrivals, recorded_logits, candidates.shape)
    draft_tokens = np.zeros((num_requests, num_drafts), dtype=np.int64)
    walked = np.full((num_requests, num_drafts, vocab_size), NO_LOGIT, dtype=np.float32)
    for request in range(num_requests):
        drawn = 0
        for place in range(num_drafts):
            row = scores[request, place, drawn].tolist()
            drawn = _drawn(row, float(temperatures[request]), arrivals[request, place].tolist())
            walked[request, place, candidates[request, place]] = row
            draft_tokens[request, place] = candidates[request, place, drawn]
    recorded_logits[request_rows] = walked
    return draft_tokens


def sample_draft_chains(
    next_logits: Callable[[Array], Array],
    temperatures: Array,
    top_k: Array,
    min_p: Array,
    target_ids: Array | None,
    vocab_size: int,
    arrivals: Array,
) -> SampledChains:
    """Draw chains of drafts from a draft model that is run once a draft, with the law that each was drawn from.

    Parameters
    ----------
    next_logits : callable
        Takes the drafts so far, int64 [request, draft] in target ids, and returns the draft model's next rows, float32
        or bfloat16 [request, column].
    temperatures : float32 [request]
        0 takes the first largest logit.
    top_k : int32 [request]
        How many of the largest logits are kept, the first of equal ones first.
    min_p : float32 [request]
        Columns are kept whose probability is at least this share of the largest one's.
    target_ids : int64 [column] or None
        The target's token of every column; None where they are the same.
    vocab_size : int
        Tokens of the target.
    arrivals : float64 [request, draft, column]
        Exponential numbers, one a column of every draw.

    Returns
    -------
    chains : SampledChains
        Drafts and their laws.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS, TOKEN_OUT_OF_RANGE, BAD_CONFIGURATION, COUNT_OUT_OF_RANGE, PROBABILITY_OUT_OF_RANGE,
        TEMPERATURE_OUT_OF_RANGE, NEGATIVE_SCORE, NAN_SCORE, INFINITE_LOGIT, EMPTY_DISTRIBUTION.

    Notes
    -----
    Source: semantics Q.5.
    """
    num_requests, num_drafts, num_columns = arrivals.shape
    ids = _checked_ids(target_ids, num_columns, vocab_size)
    _check_temperatures(temperatures, num_requests)
    _check_arrivals(arrivals, arrivals.shape)
    for request, (count, share) in enumerate(zip(top_k.tolist(), min_p.tolist(), strict=True)):
        check_range(Reason.COUNT_OUT_OF_RANGE, f"top_k[{request}]", count, "it is a number of columns", least=1)
        check_range(Reason.PROBABILITY_OUT_OF_RANGE, f"min_p[{request}]", share, "it is a share", 0, 1)
    draft_tokens = np.zeros((num_requests, num_drafts), dtype=np.int64)
    draft_probs = np.zeros((num_requests, num_drafts, vocab_size), dtype=np.float32)
    for place in range(num_drafts):
        rows = next_logits(draft_tokens[:, :place].copy())
        check_length("next_logits.shape", rows.shape, (num_requests, num_columns), "there is one row a request")
        _check_logits("next_logits", rows)
        for request in range(num_requests):
            logits = rows[request].astype(np.float32).tolist()
            kept = _largest(logits, int(top_k[request]))
            row = [logit if column in kept else NO_LOGIT for column, logit in enumerate(logits)]
            temperature = float(temperatures[request])
            weights = _weights(row, temperature)
            weights = [weight if weight >= float(min_p[request]) else 0.0 for weight in weights]
            column = _first_to_arrive(weights, arrivals[request, place].tolist())
            draft_tokens[request, place] = ids[column]
            draft_probs[request, place, ids] = np.array(weights) / sum(weights)
    return SampledChains(draft_tokens, draft_probs)


def _drawn(row: Sequence[float], temperature: float, arrivals: Sequence[float]) -> int:
    return _first_to_arrive(_weights(row, temperature), arrivals)


def _weights(row: Sequence[float], temperature: float) -> list[float]:
    """Return what the columns of a row are drawn in proportion to, the largest of them 1; one is left at 0."""
    largest = max(row)
    if largest == NO_LOGIT:
        raise SpecRejection(Reason.EMPTY_DISTRIBUTION, "row of a draft", row, "a finite logit", "a draft is drawn")
    if temperature == 0:
        return [float(column == row.index(largest)) for column in range(len(row))]
    warm = max(temperature, LEAST_DRAFT_TEMPERATURE)
    return [exp((logit - largest) / warm) for logit in row]


def _first_to_arrive(weights: Sequence[float], arrivals: Sequence[float]) -> int:
    racing = [column for column, weight in enumerate(weights) if weight > 0]
    return min(racing, key=lambda column: arrivals[column] / weights[column])


def _largest(row: Sequence[float], count: int | None) -> set[int]:
    """Return the columns of the largest logits, the first of equal ones first."""
    return set(sorted(range(len(row)), key=lambda column: -row[column])[:count])


def _rounded(row: Array, dtype: DTypeLike) -> list[float]:
    return [float(logit) for logit in row.astype(dtype)]


def _checked_ids(target_ids: Array | None, num_columns: int, vocab_size: int) -> list[int]:
    ids = list(range(num_columns)) if target_ids is None else [int(token) for token in target_ids]
    check_length("target_ids.shape[0]", len(ids), num_columns, "every column is a token")
    _check_tokens("target_ids", ids, vocab_size)
    if len(set(ids)) < len(ids):
        because = "their probabilities would have to be added up"
        raise SpecRejection(Reason.BAD_CONFIGURATION, "target_ids", ids, "no token twice", because)
    return ids


def _check_tokens(what: str, tokens: Sequence[int] | Array, vocab_size: int) -> None:
    for token in map(int, tokens):
        check_range(Reason.TOKEN_OUT_OF_RANGE, what, token, "it is a token of the target", 0, vocab_size - 1)


def _check_batch(
    temperatures: Array, request_rows: Array, arrivals: Array, recorded: Array, shape: tuple[int, ...]
) -> None:
    num_requests, num_drafts = shape[:2]
    check_length("recorded_logits.shape[1]", recorded.shape[1], num_drafts, "a row is kept for every draft")
    check_length("request_rows.shape[0]", len(request_rows), num_requests)
    rows = [int(row) for row in request_rows]
    for row in rows:
        check_range(Reason.ROW_OUT_OF_RANGE, "request_rows", row, "its logits are recorded", 0, len(recorded) - 1)
    if len(set(rows)) < len(rows):
        raise SpecRejection(Reason.DUPLICATE_ROW, "request_rows", rows, "no row twice", "each request has its own")
    _check_temperatures(temperatures, num_requests)
    _check_arrivals(arrivals, shape)


def _check_temperatures(temperatures: Array, num_requests: int) -> None:
    check_length("temperatures.shape[0]", len(temperatures), num_requests)
    for request, temperature in enumerate(temperatures.tolist()):
        if temperature != 0:
            what, reason = f"temperatures[{request}]", Reason.TEMPERATURE_OUT_OF_RANGE
            because = "0 alone is greedy"
            check_range(reason, what, temperature, because, LEAST_TEMPERATURE, GREATEST_TEMPERATURE)


def _check_arrivals(arrivals: Array, shape: tuple[int, ...]) -> None:
    check_length("arrivals.shape", arrivals.shape, shape, "every column of a draw has one")
    if np.isnan(arrivals).any():
        raise SpecRejection(Reason.NAN_SCORE, "arrivals", "NaN", "numbers", "a race has a first")
    if (arrivals < 0).any():
        raise SpecRejection(Reason.NEGATIVE_SCORE, "arrivals", arrivals.min(), "at least 0", "they are times")


def _check_logits(what: str, logits: Array) -> None:
    values = logits.astype(np.float32)
    if np.isnan(values).any():
        raise SpecRejection(Reason.NAN_SCORE, what, "NaN", "numbers", "NaN cannot be ordered")
    if (values == np.inf).any():
        raise SpecRejection(Reason.INFINITE_LOGIT, what, "inf", "finite, or -inf", "a probability is drawn from it")
