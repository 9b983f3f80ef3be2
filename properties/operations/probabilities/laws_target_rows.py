"""Laws of the target's rows: temperature and filters of the request that a row belongs to."""

from functools import partial

import numpy as np

from specsim.conformance.backend import Backend
from specsim.contracts.rounding import largest_exponents, rounding_bound
from specsim.properties.laws.checks import (
    Array,
    Case,
    outputs_of,
    require,
    require_equal,
    require_one_by_one,
    require_rounded,
    states,
)
from specsim.properties.operations.probabilities import strategy as row_strategies
from specsim.properties.strategies import filters
from specsim.properties.strategies.limits import limits

_PARAMETERS = ("temperature", "top_k", "top_p", "min_p")
_SHIFT = 8.0
_CLEAR = 1e-4
"""Rows with a closer decision may fall either way where more is rounded than once; agreement counts them."""


def rows_are_those_of_a_plain_sampler(backend: Backend, case: Case) -> None:
    """Softmax at the request's temperature, then top-k, top-p and min-p, each renormalised before the next."""
    got = outputs_of(backend, "target_probabilities", case)["target_probs"]
    exponents = largest_exponents(case["logits"], case["temperature"])
    for row, logits in enumerate(case["logits"].astype(np.float64)):
        request = row // case["num_draft_tokens"]
        temperature, *filters = (float(case[name][request]) for name in _PARAMETERS)
        if temperature > 0 and not may_keep_any(logits):
            expected, clearance = sampled_row(logits / temperature, *filters)
            if clearance > _CLEAR:
                require_rounded(f"row {row}", got[row : row + 1], expected[None], exponents[row])


def greedy_requests_get_one_hot_rows(backend: Backend, case: Case) -> None:
    """At temperature 0 the first largest logit gets everything, whatever the filters say."""
    got = outputs_of(backend, "target_probabilities", case)["target_probs"]
    for row, logits in enumerate(case["logits"].tolist()):
        if case["temperature"][row // case["num_draft_tokens"]] == 0:
            require_equal(f"row {row}", got[row], np.arange(len(logits)) == logits.index(max(logits)))


def shifting_logits_changes_nothing(backend: Backend, case: Case) -> None:
    """Only differences of logits matter."""
    plain = {**case, "logits": case["logits"].astype(np.float32)}
    shifted = {**plain, "logits": plain["logits"] + np.float32(_SHIFT)}
    rows = [outputs_of(backend, "target_probabilities", one)["target_probs"] for one in (plain, shifted)]
    exponents = largest_exponents(shifted["logits"], case["temperature"])[:, None]
    require_rounded("target_probs of shifted logits", rows[1], rows[0], 2 * exponents)


def reversing_tokens_reverses_rows(backend: Backend, case: Case) -> None:
    """Tokens in another order get the same probabilities, but for ties at temperature 0 or where ties are free."""
    sampled = {**case, "temperature": np.where(case["temperature"] == 0, np.float32(1), case["temperature"])}
    rows = outputs_of(backend, "target_probabilities", sampled)["target_probs"]
    backwards = {**sampled, "logits": np.ascontiguousarray(case["logits"][:, ::-1])}
    got = outputs_of(backend, "target_probabilities", backwards)["target_probs"]
    is_decided = [not may_keep_any(logits) for logits in case["logits"].astype(np.float64)]
    require_rounded("target_probs of reversed tokens", got[is_decided, ::-1], rows[is_decided])


def may_keep_any(logits: Array) -> bool:
    """Return whether a filter may keep any of several equal logits of a row."""
    return limits().ties_are_free and len(np.unique(logits)) < len(logits)


def requests_are_filtered_one_by_one(backend: Backend, case: Case) -> None:
    """A request's rows are the same alone, and in any order of the batch."""
    require_one_by_one(backend, "target_probabilities", case, ["target_probs"], require_rounded)


def forbidden_tokens_get_nothing(backend: Backend, case: Case) -> None:
    """A logit of -inf has probability 0, and every row adds up to 1."""
    got = outputs_of(backend, "target_probabilities", case)["target_probs"]
    forbidden = np.isneginf(case["logits"].astype(np.float32))
    require_equal("the probabilities of forbidden tokens", got[forbidden], np.zeros(forbidden.sum()))
    missing = np.abs(got.sum(axis=1, dtype=np.float64) - 1).max(initial=0.0)
    require(missing <= rounding_bound(got.shape[1]), "the sum of a row", f"off by {missing}", "1")


def sampled_row(scaled: Array, top_k: float, top_p: float, min_p: float) -> tuple[Array, float]:
    """Sort once, cut three times; also return how clear the cuts are, as a share of what they compare."""
    order = np.argsort(-scaled, kind="stable")
    row = np.exp(scaled[order] - scaled.max())
    row, clearance = row / row.sum(), np.inf
    first_of_ties = np.searchsorted(-scaled[order], -scaled[order])
    if top_k < len(row):
        row, clearance = _cut(row, first_of_ties < top_k)
    if top_p < 1:
        before = np.concatenate([[0.0], np.cumsum(row)])[first_of_ties]
        clearance = min(clearance, float(np.abs(before[row > 0] - top_p).min()))
        row, gap = _cut(row, before < top_p)
        clearance = min(clearance, gap)
    if min_p > 0:
        below = row[row < row[0]] / (min_p * row[0])
        clearance = min(clearance, float(np.abs(below - 1).min(initial=np.inf)))
        row, _ = _cut(row, row >= min_p * row[0])
    back = np.zeros_like(row)
    back[order] = row
    return back, clearance


def _cut(row: Array, is_kept: Array) -> tuple[Array, float]:
    """Keep the front of a sorted row; also return how far the rest lies below it."""
    kept = np.where(is_kept, row, 0.0)
    last = row[is_kept][-1]
    gap = 1 - row[~is_kept].max(initial=0.0) / last if last > 0 else np.inf
    return kept / kept.sum(), float(gap)


_calls = row_strategies.target_probabilities
_cutting_calls = partial(_calls, of_request=filters.cutting_filters(), one_in=2)
_greedy_calls = partial(_calls, of_request=filters.filters(greedy_one_in=2))

PROPERTIES = states(
    "target_rows",
    (rows_are_those_of_a_plain_sampler, _cutting_calls, "target_probabilities", "P13"),
    (greedy_requests_get_one_hot_rows, _greedy_calls, "target_probabilities", "P13"),
    (shifting_logits_changes_nothing, "target_probabilities", "P13"),
    (reversing_tokens_reverses_rows, "target_probabilities", "P13"),
    (requests_are_filtered_one_by_one, "target_probabilities", "P31"),
    (forbidden_tokens_get_nothing, "target_probabilities", "P07"),
)
