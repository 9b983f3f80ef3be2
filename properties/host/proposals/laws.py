"""Laws of drawn drafts: each is drawn from exactly the row that verification takes it to be drawn from."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.host.proposals import LEAST_DRAFT_TEMPERATURE
from specsim.properties.host.proposals import strategy as strategies
from specsim.properties.host.proposals.realised_rows import Drawn, Sampler, require_realised
from specsim.properties.laws.checks import Array, for_each, refuses, require, require_equal, states
from specsim.rejection import Reason

MARKOV, SELECTOR, CHAINS = "walk_markov_drafts", "walk_selector_drafts", "sample_draft_chains"


def markov_drafts_are_drawn_from_what_is_recorded(backend: Backend, case: strategies.WalkCase) -> None:
    """After any drafts, a draft is drawn from the row that is recorded for it, over its temperature."""
    require_realised(walk_of(backend, MARKOV, case))


def selected_drafts_are_drawn_from_what_is_recorded(backend: Backend, case: strategies.WalkCase) -> None:
    """The same of drafts that are selected among candidates: no other token has a part of the row."""
    require_realised(walk_of(backend, SELECTOR, case))


def chains_are_drawn_from_what_is_handed_over(backend: Backend, case: strategies.ChainCase) -> None:
    """After any drafts, a draft is drawn from the probabilities that go to verification, filters and map included."""
    require_realised(chains_of(backend, case))


def markov_walks_leave_rows_of_others(backend: Backend, case: strategies.WalkCase) -> None:
    """A walk writes no row of a request that is not in its batch."""
    _require_others_untouched(backend, MARKOV, case)


def selector_walks_leave_rows_of_others(backend: Backend, case: strategies.WalkCase) -> None:
    """A walk among candidates writes no row of a request that is not in its batch."""
    _require_others_untouched(backend, SELECTOR, case)


def bad_markov_walks_are_refused(backend: Backend, cases: Sequence[strategies.WalkCase]) -> None:
    """Logits of NaN, temperatures below 0 and rows past the buffer are refused, and nothing is written."""
    _require_refusals(backend, MARKOV, cases[0], "base_logits")


def bad_selector_walks_are_refused(backend: Backend, cases: Sequence[strategies.WalkCase]) -> None:
    """The same of walks among candidates."""
    _require_refusals(backend, SELECTOR, cases[0], "scores")


def walk_of(backend: Backend, name: str, case: strategies.WalkCase) -> Sampler:
    """Return the walk of a case as a sampler, in a buffer that another batch has walked in before."""
    temperatures, rows = case.arguments["temperatures"], case.arguments["request_rows"]
    written = _written(backend, name, case)

    def draw(arrivals: Array) -> Drawn:
        recorded = written.copy()
        returned = backend.host(name)(**{**case.arguments, "arrivals": arrivals, "recorded_logits": recorded})
        tokens = _of_shape("drafts", returned, case.columns.shape[:2])
        warm = np.maximum(temperatures, LEAST_DRAFT_TEMPERATURE).astype(np.float64)
        exponents = recorded[rows].astype(np.float64) / warm[:, None, None]
        with np.errstate(invalid="ignore"):
            weights = np.exp(exponents - exponents.max(axis=2, keepdims=True))
        laws = weights / weights.sum(axis=2, keepdims=True)
        # NOTE: rows of drafts at temperature 0 are not read; verification takes these drafts as certain.
        is_token = np.arange(case.vocab_size) == tokens[:, :, None]
        return Drawn(tokens, np.where((temperatures == 0)[:, None, None], is_token, laws))

    return Sampler(draw, case.columns, case.arguments["arrivals"], temperatures, case.exponents)


def chains_of(backend: Backend, case: strategies.ChainCase) -> Sampler:
    """Return the chains of a case as a sampler."""

    def draw(arrivals: Array) -> Drawn:
        asked: list[Array] = []
        asking = {"next_logits": partial(_next_logits, case, asked), "arrivals": arrivals}
        chains = backend.host(CHAINS)(**{**case.arguments, **asking})
        tokens = _of_shape("draft_tokens", chains.draft_tokens, case.columns.shape[:2])
        shape = (*tokens.shape, case.arguments["vocab_size"])
        probs = _of_shape("draft_probs", chains.draft_probs, shape).astype(np.float64)
        for before in asked:
            require_equal("drafts that the draft model was given", before, tokens[:, : before.shape[1]])
        return Drawn(tokens, probs)

    known = case.arguments
    return Sampler(draw, case.columns, known["arrivals"], known["temperatures"], case.exponents)


def _of_shape(what: str, returned: Any, shape: tuple[int, ...]) -> Array:
    """Return an array; raise AssertionError if it has another shape."""
    got = np.asarray(returned)
    require(got.shape == shape, f"shape of {what}", got.shape, shape)
    return got


def _next_logits(case: strategies.ChainCase, asked: list[Array], draft_tokens: Array) -> Array:
    """Return the rows after some drafts, which are remembered; a draft that no column is of has none."""
    asked.append(draft_tokens)
    rows = []
    for request, before in enumerate(draft_tokens.tolist()):
        known = case.rows[request]
        what = f"drafts of request {request} that the draft model was given"
        require(tuple(before) in known, what, before, f"tokens of {sorted({*case.columns[request, 0].tolist()})}")
        rows.append(known[tuple(before)])
    return np.stack(rows)


def _written(backend: Backend, name: str, case: strategies.WalkCase) -> Array:
    """Return a buffer in which an earlier batch has walked."""
    recorded = case.buffer()
    backend.host(name)(**case.earlier, recorded_logits=recorded)
    return recorded


def _require_others_untouched(backend: Backend, name: str, case: strategies.WalkCase) -> None:
    before = _written(backend, name, case)
    recorded = before.copy()
    backend.host(name)(**case.arguments, recorded_logits=recorded)
    others = np.setdiff1d(np.arange(case.num_rows), case.arguments["request_rows"])
    require_equal(f"recorded rows of {others.tolist()}, not in the batch,", recorded[others], before[others])


def _require_refusals(backend: Backend, name: str, case: strategies.WalkCase, logits: str) -> None:
    if not backend.rejects:
        return
    rows, temperatures = case.arguments["request_rows"], case.arguments["temperatures"]
    no_number = case.arguments[logits].copy()
    no_number.reshape(-1)[-1] = np.nan
    below = temperatures.copy()
    below[-1] = -1
    for reason, changed in (
        (Reason.NAN_SCORE, {logits: no_number}),
        (Reason.TEMPERATURE_OUT_OF_RANGE, {"temperatures": below}),
        (Reason.ROW_OUT_OF_RANGE, {"request_rows": np.where(rows == rows[-1], case.num_rows, rows)}),
    ):
        recorded = case.buffer()
        call: dict[str, Any] = {**case.arguments, **changed, "recorded_logits": recorded}
        refuses(reason, partial(backend.host(name), **call))
        require_equal("what a refused walk has recorded", recorded, case.buffer())


PROPERTIES = states(
    "proposals",
    (for_each(markov_drafts_are_drawn_from_what_is_recorded), strategies.several_markov_cases, (MARKOV,)),
    (for_each(markov_walks_leave_rows_of_others), strategies.several_markov_cases, (MARKOV,)),
    (bad_markov_walks_are_refused, strategies.several_markov_cases, (MARKOV,)),
    (for_each(selected_drafts_are_drawn_from_what_is_recorded), strategies.several_selector_cases, (SELECTOR,)),
    (for_each(selector_walks_leave_rows_of_others), strategies.several_selector_cases, (SELECTOR,)),
    (bad_selector_walks_are_refused, strategies.several_selector_cases, (SELECTOR,)),
    (for_each(chains_are_drawn_from_what_is_handed_over), strategies.several_chain_cases, (CHAINS,)),
)
