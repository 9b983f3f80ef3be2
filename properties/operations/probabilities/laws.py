"""Laws of rows: how logits are prepared, and which tokens a filter keeps."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
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
from specsim.properties.operations.generated.ties import AS_RIGHT, is_as_right, renormalised
from specsim.properties.operations.probabilities import strategy as row_strategies
from specsim.properties.strategies.arrays import bulk, one_of_evenly
from specsim.properties.strategies.distributions import EXACT_ROWS
from specsim.properties.strategies.limits import limits

_PENALTIES = ("scaling_penalty", "additive_penalty", "logit_bias")
_SWITCHED_OFF = {"top_k_renorm": ("top_k", 2**30), "top_p_renorm": ("top_p", 1.0), "min_p_renorm": ("min_p", 0.0)}


def logits_are_prepared_step_by_step(backend: Backend, case: Case) -> None:
    """Row b*N+i: add the request's penalty, scale by the other, add its bias, and at last forbid what the mask does."""
    rows = np.repeat(np.arange(len(case["logits"]) // case["num_draft_tokens"]), case["num_draft_tokens"])
    values = case["logits"].astype(np.float32)
    scale, additive, bias = (None if case[name] is None else case[name][rows] for name in _PENALTIES)
    if additive is not None:
        values = values + additive
    if scale is not None:
        values = np.where(values > 0, values / scale, values * scale)
    if bias is not None:
        values = values + bias
    if case["vocab_mask"] is not None:
        values = np.where(allowed_tokens(case["vocab_mask"], values.shape[1]), values, -np.inf)
    require_equal("prepared_logits", outputs_of(backend, "prepare_logits", case)["prepared_logits"], values)


def absent_steps_change_nothing(backend: Backend, case: Case) -> None:
    """A step that is left out gives what its neutral values give."""
    shape = (len(case["logits"]) // case["num_draft_tokens"], case["logits"].shape[1])
    neutral = {
        "scaling_penalty": np.ones(shape, dtype=np.float32),
        "additive_penalty": np.zeros(shape, dtype=np.float32),
        "logit_bias": np.zeros(shape, dtype=np.float32),
        "vocab_mask": np.full((len(case["logits"]), -(-shape[1] // 32)), -1, dtype=np.int32),
    }
    for name, values in neutral.items():
        absent = outputs_of(backend, "prepare_logits", {**case, name: None})["prepared_logits"]
        given = outputs_of(backend, "prepare_logits", {**case, name: values})["prepared_logits"]
        require_equal(f"prepared_logits without {name}", absent, given)


def requests_are_prepared_one_by_one(backend: Backend, case: Case) -> None:
    """A request's logits are the same alone, and in any order of the batch."""
    require_one_by_one(backend, "prepare_logits", case, ["prepared_logits"])


def top_k_keeps_the_most_probable(backend: Backend, case: Case) -> None:
    """A possible token is kept if and only if fewer than k tokens of its row are more probable."""
    probabilities = case["probabilities"]
    better = np.array([[(row > value).sum() for value in row] for row in probabilities]).reshape(probabilities.shape)
    expected = (better < case["top_k"][:, None]) & (probabilities > 0)
    kept = outputs_of(backend, "top_k_renorm", case)["renormalised"] > 0
    if limits().ties_are_free:
        require_right_but_for_ties("top_k_renorm", case, expected, kept)
        return
    require_equal("the tokens that top-k keeps", kept, expected)


def require_right_but_for_ties(operation: str, case: Case, expected: Array, kept: Array) -> None:
    """Raise AssertionError where what is kept of a row is not, but for ties, what should be."""
    given = case["probabilities"].astype(np.float64)
    shares = [renormalised(np.where(mask, given, 0)) for mask in (expected, kept)]
    is_right = AS_RIGHT[operation](case, *({"renormalised": share} for share in shares))
    require_equal(f"the rows of {operation} that are right but for ties", is_right, np.ones_like(is_right))


def top_p_keeps_the_least_mass_that_suffices(backend: Backend, case: Case) -> None:
    """On rows whose sums are exact, a token is kept while the mass of the more probable ones is below the share."""
    probabilities = case["probabilities"].astype(np.float64)
    wanted = case["top_p"].astype(np.float64)[:, None] * probabilities.sum(axis=1, keepdims=True)
    before = np.array([[row[row > value].sum() for value in row] for row in probabilities])
    expected = ((before.reshape(probabilities.shape) < wanted) | (case["top_p"] >= 1)[:, None]) & (probabilities > 0)
    kept = outputs_of(backend, "top_p_renorm", case)["renormalised"] > 0
    if limits().ties_are_free:
        # NOTE: a mass that is the share itself is a tie too: with the tokens after it a row is as good.
        reached = (before.reshape(probabilities.shape) == wanted) & (probabilities > 0)
        takes_more = (kept & reached).any(axis=1, keepdims=True)
        require_right_but_for_ties("top_p_renorm", case, expected | (reached & takes_more), kept)
        return
    require_equal("the tokens that top-p keeps", kept, expected)


def min_p_keeps_what_reaches_the_share(backend: Backend, case: Case) -> None:
    """On rows whose products are exact, a token is kept if it reaches its share of the most probable one."""
    probabilities = case["probabilities"].astype(np.float64)
    least = case["min_p"].astype(np.float64)[:, None] * probabilities.max(axis=1, initial=0.0, keepdims=True)
    expected = (probabilities >= least) & (probabilities > 0)
    kept = outputs_of(backend, "min_p_renorm", case)["renormalised"] > 0
    if limits().ties_are_free:
        # NOTE: a probability that is the share itself is a tie too, which the rounding of a logarithm decides.
        expected &= kept | (probabilities != least)
    require_equal("the tokens that min-p keeps", kept, expected)


def kept_tokens_keep_their_ratios(backend: Backend, case: tuple[str, Case]) -> None:
    """The kept tokens are the most probable ones, divided by their sum."""
    operation, arguments = case
    given = arguments["probabilities"].astype(np.float64)
    got = outputs_of(backend, operation, arguments)["renormalised"]
    kept = np.where(got > 0, given, 0.0)
    for row, mask in enumerate(got > 0):
        dropped = given[row][~mask].max(initial=0.0)
        require(mask.any(), f"the tokens that {operation} keeps of row {row}", "none", "at least one")
        least = given[row][mask].min()
        is_more = least > dropped or dropped == 0 or (limits().ties_are_free and least == dropped)
        require(is_more, f"a kept token of row {row}", "less probable", "more")
    require_rounded(f"the rows of {operation}", got, kept / kept.sum(axis=1, keepdims=True))


def switched_off_filters_only_renormalise(backend: Backend, case: tuple[str, Case]) -> None:
    """A count beyond the vocabulary, a share of 1 and a least share of 0 keep every token."""
    operation, arguments = case
    name, value = _SWITCHED_OFF[operation]
    given = arguments["probabilities"].astype(np.float64)
    got = outputs_of(backend, operation, {**arguments, name: np.full_like(arguments[name], value)})["renormalised"]
    require_rounded(f"the rows of {operation}", got, given / given.sum(axis=1, keepdims=True))


def top_k_is_idempotent(backend: Backend, case: Case) -> None:
    """Top-k of what it kept changes nothing."""
    once = outputs_of(backend, "top_k_renorm", case)["renormalised"]
    twice = outputs_of(backend, "top_k_renorm", {**case, "probabilities": once})["renormalised"]
    require_rounded("the rows after the second top-k", twice, once)
    require_equal("the tokens that the second top-k keeps", twice > 0, once > 0)


def rows_are_filtered_one_by_one(backend: Backend, case: tuple[str, Case]) -> None:
    """A row's tokens are the same alone, and in any order of the rows."""
    operation, arguments = case
    is_right = is_as_right if operation in AS_RIGHT else None
    require_one_by_one(backend, operation, arguments, ["renormalised"], axis="token", is_right=is_right)


def allowed_tokens(vocab_mask: Array, vocab: int) -> Array:
    """Return the truth values of a packed mask, bool [row, vocab]."""
    octets = np.ascontiguousarray(vocab_mask.astype("<i4")).view(np.uint8)
    octets = octets.reshape(len(vocab_mask), vocab_mask.shape[1] * 4)
    return np.asarray(np.unpackbits(octets, axis=1, bitorder="little")[:, :vocab] == 1)


def _filter_calls() -> st.SearchStrategy[tuple[str, Case]]:
    def named(name: str) -> st.SearchStrategy[tuple[str, Case]]:
        strategy: Callable[[], st.SearchStrategy[Case]] = vars(row_strategies)[name]
        return strategy().map(lambda case: (name, case))

    return one_of_evenly(*map(named, _SWITCHED_OFF))


@composite
def _exact_top_p(draw: st.DrawFn) -> Case:
    """Draw rows whose sums are exact, and shares most of which lie on a boundary, while others are eighths."""
    probabilities = draw(row_strategies.rows_of_mass(kinds=EXACT_ROWS))
    eighths = draw(row_strategies.shares(len(probabilities), 1, (1.0,)))
    source = draw(bulk())
    is_near = source.integers(len(probabilities), 0, 3) < 3
    near = row_strategies.shares_of(probabilities, source)
    return {"probabilities": probabilities, "top_p": np.where(is_near, near, eighths)}


@composite
def _exact_min_p(draw: st.DrawFn) -> Case:
    """Draw rows whose products are exact, eighths as shares, and in most rows an entry right at its share."""
    probabilities = draw(row_strategies.rows_of_mass(kinds=EXACT_ROWS))
    eighths = draw(row_strategies.shares(len(probabilities), 0, (1.0,)))
    source = draw(bulk())
    is_at_share = source.integers(len(probabilities), 0, 3) < 3
    at_share = row_strategies.with_entries_at(probabilities, eighths, source)
    at_share = probabilities if limits().is_normalised else at_share
    return {"probabilities": np.where(is_at_share[:, None], at_share, probabilities), "min_p": eighths}


PROPERTIES = states(
    "probabilities",
    (logits_are_prepared_step_by_step, "prepare_logits", "P14"),
    (absent_steps_change_nothing, "prepare_logits", "P14"),
    (requests_are_prepared_one_by_one, "prepare_logits", "P31"),
    (top_k_keeps_the_most_probable, "top_k_renorm", "P13"),
    (top_p_keeps_the_least_mass_that_suffices, _exact_top_p, "top_p_renorm", "P13"),
    (min_p_keeps_what_reaches_the_share, _exact_min_p, "min_p_renorm", "P13"),
    (kept_tokens_keep_their_ratios, _filter_calls, ("top_k_renorm", "top_p_renorm", "min_p_renorm"), "P13"),
    (switched_off_filters_only_renormalise, _filter_calls, ("top_k_renorm", "top_p_renorm", "min_p_renorm"), "P13"),
    (top_k_is_idempotent, "top_k_renorm", "P13"),
    (rows_are_filtered_one_by_one, _filter_calls, ("top_k_renorm", "top_p_renorm", "min_p_renorm"), "P31"),
)
