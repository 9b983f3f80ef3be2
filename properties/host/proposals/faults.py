"""Faults of drawn drafts: rows that no draft was drawn from, and drafts that are drawn from no row that is recorded."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from specsim.host.proposals import LEAST_DRAFT_TEMPERATURE, SampledChains
from specsim.host.sampling import LEAST_TEMPERATURE
from specsim.properties.mutants.record import Function, Mutant, Named, answering, given, mutants_of, with_arguments
from specsim.properties.strategies.arrays import Array

Change = Callable[[Named], Named]
"""Returns other arguments of a call."""

BUFFER = "recorded_logits"


def _ids(arguments: Named) -> Array:
    num_columns = arguments["arrivals"].shape[2]
    return np.arange(num_columns) if arguments["target_ids"] is None else arguments["target_ids"]


def _columns_of(arguments: Named) -> Array:
    """Return the token of every arrival, [request, draft, column]."""
    if "candidates" in arguments:
        candidates: Array = arguments["candidates"]
        return candidates
    return np.broadcast_to(_ids(arguments), arguments["arrivals"].shape)


def _forced(arguments: Named, tokens: Array) -> Named:
    """Return a call whose noise leads to some drafts."""
    is_drawn = _columns_of(arguments) == tokens[:, :, None]
    return {**arguments, "arrivals": np.where(is_drawn, 2.0**-40, 2.0**40)}


def _aside(arguments: Named) -> Named:
    """Return a call that records in a buffer of its own."""
    return {**arguments, BUFFER: arguments[BUFFER].copy()} if BUFFER in arguments else dict(arguments)


def _drawing(change: Change) -> Callable[[Function], Function]:
    """Inject a fault in what is drawn from; what is recorded for the drafts is right."""

    def answer(correct: Function, arguments: Named) -> Any:
        drawn = correct(**change(_aside(arguments)))
        tokens = drawn.draft_tokens if isinstance(drawn, SampledChains) else drawn
        again = correct(**_forced(arguments, tokens))
        return SampledChains(tokens, again.draft_probs) if isinstance(drawn, SampledChains) else tokens

    return answering(answer)


def _recording(change: Change) -> Callable[[Function], Function]:
    """Inject a fault in what is recorded, as if it had been drawn from; what is drawn is right."""

    def answer(correct: Function, arguments: Named) -> Any:
        drawn = correct(**_aside(arguments))
        tokens = drawn.draft_tokens if isinstance(drawn, SampledChains) else drawn
        again = correct(**change(_forced(arguments, tokens)))
        return SampledChains(tokens, again.draft_probs) if isinstance(drawn, SampledChains) else tokens

    return answering(answer)


def _instead(**changes: Any) -> Change:
    """Return a change of arguments, each to a value or to a function of the call."""

    def change(arguments: Named) -> Named:
        made = {name: one(arguments) if callable(one) else one for name, one in changes.items()}
        return {**arguments, **made}

    return change


def _rows(edit: Callable[[Array, Named], Array]) -> Callable[[Function], Function]:
    """Inject a fault in the rows that were recorded in a buffer."""

    def answer(correct: Function, arguments: Named) -> Any:
        before = arguments[BUFFER].copy()
        tokens = correct(**arguments)
        recorded, rows = arguments[BUFFER], arguments["request_rows"]
        recorded[rows] = edit(recorded[rows], {**arguments, BUFFER: before[rows], "tokens": tokens})
        return tokens

    return answering(answer)


def _probs(edit: Callable[[Array, Named], Array]) -> Callable[[Function], Function]:
    """Inject a fault in the laws that are handed over."""

    def answer(correct: Function, arguments: Named) -> SampledChains:
        tokens, probs = correct(**arguments)
        return SampledChains(tokens, edit(probs, {**arguments, "tokens": tokens}).astype(np.float32))

    return answering(answer)


def _warm(temperature: Callable[[Array], Any]) -> Callable[[Named], Array]:
    """Return temperatures of which those above 0 are others."""

    def change(arguments: Named) -> Array:
        temperatures: Array = arguments["temperatures"]
        return np.where(temperatures > 0, temperature(temperatures), temperatures).astype(np.float32)

    return change


def _at_least(least: float) -> Change:
    """Return a change as if temperatures above 0 were raised to another bound than is usual."""

    def change(arguments: Named) -> Named:
        # NOTE: one bias for all requests; the first one's temperature is above 0, and says how logits are scaled.
        temperature = float(arguments["temperatures"][0])
        scale = np.float32(max(temperature, LEAST_DRAFT_TEMPERATURE) / max(temperature, least))
        base = arguments["base_logits"]
        scaled = (base.astype(np.float32) * scale).astype(base.dtype)
        return {**arguments, "base_logits": scaled, "bias": arguments["bias"] * scale}

    return change


def _base(rows: Array, arguments: Named) -> Array:
    rows = rows.copy()
    rows[:, :, _ids(arguments)] = arguments["base_logits"]
    return rows


def _before(arguments: Named) -> Array:
    """Return the token before every draft."""
    return np.concatenate([arguments["roots"][:, None], arguments["tokens"][:, :-1]], axis=1)


def _unrounded(rows: Array, arguments: Named) -> Array:
    rows, ids = rows.copy(), _ids(arguments)
    exact = arguments["base_logits"].astype(np.float32) + arguments["bias"][_before(arguments)]
    rows[:, :, ids] = np.where(np.isinf(rows[:, :, ids]), rows[:, :, ids], exact)
    return rows


def _over_temperature(rows: Array, arguments: Named) -> Array:
    temperatures = arguments["temperatures"][:, None, None]
    return np.where(temperatures > 0, rows / np.where(temperatures > 0, temperatures, 1), rows)


def _two_largest(rows: Array, arguments: Named) -> Array:
    return np.where(rows < np.sort(rows, axis=2)[:, :, [-2]], -np.inf, rows)


def _and_older_columns(rows: Array, arguments: Named) -> Array:
    return np.where(np.isinf(rows), arguments[BUFFER], rows)


def _later(rows: Array, arguments: Named) -> Array:
    """Return of each draft the row of the one before it, of the first that of the last."""
    return np.roll(rows, 1, axis=1)


def _one_hot(rows: Array, arguments: Named) -> Array:
    return np.eye(rows.shape[2])[arguments["tokens"]]


def _by_column(rows: Array, arguments: Named) -> Array:
    """Return rows of columns that are not mapped."""
    moved = np.full_like(rows, rows.min() if rows.min() >= 0 else -np.inf)
    columns = _columns_of(arguments)
    moved[:, :, : columns.shape[2]] = np.take_along_axis(rows, columns, axis=2)
    return moved


def _with_root_bias(arguments: Named) -> Named:
    """Return a walk whose every draft stands after the root: the bias of its token is that of any."""
    rows = []
    for base, root in zip(arguments["base_logits"], arguments["roots"], strict=True):
        rows.append((base.astype(np.float32) + arguments["bias"][root]).astype(base.dtype))
    return {**arguments, "base_logits": np.stack(rows), "bias": np.zeros_like(arguments["bias"])}


def _batch_rows(correct: Function, arguments: Named) -> Any:
    count = len(arguments["request_rows"])
    return correct(**{**arguments, "request_rows": np.arange(count, dtype=np.int64)})


def _clears_all(correct: Function, arguments: Named) -> Any:
    tokens = correct(**_aside(arguments))
    arguments[BUFFER][...] = -np.inf
    return correct(**_forced(arguments, tokens))


def _unmapped(correct: Function, arguments: Named) -> Any:
    drawn = correct(**arguments)
    tokens = drawn.draft_tokens if isinstance(drawn, SampledChains) else drawn
    columns = (_columns_of(arguments) == tokens[:, :, None]).argmax(axis=2)
    return SampledChains(columns, drawn.draft_probs) if isinstance(drawn, SampledChains) else columns


def _feeding_columns(correct: Function, arguments: Named) -> Any:
    """Give the draft model the columns of the drafts in the place of their tokens."""
    ids, next_logits = _ids(arguments), arguments["next_logits"]

    def unmapped(draft_tokens: Array) -> Any:
        return next_logits((ids == draft_tokens[..., None]).argmax(axis=-1).astype(np.int64))

    return correct(**{**arguments, "next_logits": unmapped})


def _kept_as_they_were(probs: Array, arguments: Named) -> Array:
    """Return what filters keep of the rows, without dividing by its sum."""
    exponents = np.zeros_like(probs)
    for place in range(probs.shape[1]):
        rows = arguments["next_logits"](arguments["tokens"][:, :place]).astype(np.float32)
        warm = np.where(arguments["temperatures"] > 0, arguments["temperatures"], 1)[:, None]
        shares = np.exp(rows / warm)
        exponents[:, place, _ids(arguments)] = shares / shares.sum(axis=1, keepdims=True)
    return np.where(probs > 0, exponents, 0)


_TEMPERATURES = {
    "missing": _instead(temperatures=_warm(np.ones_like)),
    "twice": _instead(temperatures=_warm(np.square)),
    "warm": _instead(
        temperatures=lambda arguments: np.where(arguments["temperatures"] == 0, 1, arguments["temperatures"])
    ),
}
_NOISE = {
    "of another request": _instead(arrivals=lambda arguments: np.roll(arguments["arrivals"], 1, axis=0)),
    "of one draft": _instead(
        arrivals=lambda arguments: np.repeat(arguments["arrivals"][:, :1], arguments["arrivals"].shape[1], axis=1)
    ),
}
_UNFILTERED = {
    "top_k": lambda arguments: np.full_like(arguments["top_k"], 2**30),
    "min_p": lambda arguments: np.zeros_like(arguments["min_p"]),
}


def _of_walks(name: str, first: int, logits: str) -> tuple[Mutant, ...]:
    """Return the faults that any walk in a buffer can have."""
    faults = (
        ("Rows are recorded as divided by their temperature.", _rows(_over_temperature)),
        ("Rows are recorded as cut to their two largest logits.", _rows(_two_largest)),
        ("Columns of the walk before are left in the buffer.", _rows(_and_older_columns)),
        ("Rows are recorded by the request's place in the batch.", answering(_batch_rows)),
        ("Drafts are drawn without their temperature.", _drawing(_TEMPERATURES["missing"])),
        ("The temperature is applied twice.", _drawing(_TEMPERATURES["twice"])),
        ("Requests at temperature 0 are drawn at 1.", _drawing(_TEMPERATURES["warm"])),
        ("Of each draft the row of the one before it is recorded.", _rows(_later)),
        ("Rows are recorded by column, not by token.", _rows(_by_column)),
        ("A request is drawn on the noise of another.", _drawing(_NOISE["of another request"])),
        ("All drafts of a request are drawn on one noise.", _drawing(_NOISE["of one draft"])),
        ("A walk clears the rows of all requests.", answering(_clears_all)),
        ("A logit of NaN counts as 0.", with_arguments(**{logits: np.nan_to_num})),
        ("A temperature below 0 counts as 0.", with_arguments(temperatures=lambda own: np.maximum(own, 0))),
        ("A row past the buffer counts as the last one.", given(_within_buffer)),
    )
    return mutants_of(name, *((f"OWN-{first + place}", *fault) for place, fault in enumerate(faults)))


def _within_buffer(arguments: Named) -> None:
    arguments["request_rows"] = np.minimum(arguments["request_rows"], len(arguments[BUFFER]) - 1)


MUTANTS = (
    *_of_walks("walk_markov_drafts", 4850, "base_logits"),
    *mutants_of(
        "walk_markov_drafts",
        ("OWN-4865", "The row of the parallel forward is recorded, without what the draft before adds.", _rows(_base)),
        ("OWN-4866", "Rows are recorded before they are rounded.", _rows(_unrounded)),
        (
            "OWN-4867",
            "Temperatures are raised to the least one on one side only.",
            _drawing(_at_least(LEAST_TEMPERATURE)),
        ),
        ("OWN-4868", "A higher least temperature is drawn with.", _drawing(_at_least(1e-3))),
        ("OWN-4869", "Drafts are returned by column, not by token.", answering(_unmapped)),
        ("OWN-4870", "All columns are drawn from, and candidates recorded.", _drawing(_instead(num_candidates=None))),
        ("OWN-4871", "Every draft is recorded as if it stood after the root.", _recording(_with_root_bias)),
    ),
    *_of_walks("walk_selector_drafts", 4872, "scores"),
    *mutants_of(
        "walk_selector_drafts",
        (
            "OWN-4887",
            "Scores are recorded as of the first candidate.",
            _recording(
                _instead(
                    scores=lambda arguments: np.repeat(
                        arguments["scores"][:, :, :1], arguments["scores"].shape[2], axis=2
                    )
                )
            ),
        ),
        ("OWN-4888", "Drafts are returned by candidate, not by token.", answering(_unmapped)),
    ),
    *mutants_of(
        "sample_draft_chains",
        ("OWN-4889", "Of each draft the law of the one before it is handed over.", _probs(_later)),
        ("OWN-4890", "Laws are handed over without their temperature.", _recording(_TEMPERATURES["missing"])),
        ("OWN-4891", "Laws are handed over with their temperature twice.", _recording(_TEMPERATURES["twice"])),
        ("OWN-4892", "Drafts are handed over by column, not by token.", answering(_unmapped)),
        ("OWN-4893", "Laws are handed over by column, not by token.", _probs(_by_column)),
        ("OWN-4894", "The draft model is given columns in the place of tokens.", answering(_feeding_columns)),
        (
            "OWN-4895",
            "Drafts are drawn after filters, laws handed over before them.",
            _recording(_instead(**_UNFILTERED)),
        ),
        (
            "OWN-4896",
            "Drafts are drawn before filters, laws handed over after them.",
            _drawing(_instead(**_UNFILTERED)),
        ),
        ("OWN-4897", "What filters keep is not divided by its sum.", _probs(_kept_as_they_were)),
        ("OWN-4898", "Laws are handed over in bfloat16.", _probs(lambda probs, arguments: probs.astype(bfloat16))),
        ("OWN-4899", "The drawn token is handed over as certain.", _probs(_one_hot)),
        ("OWN-4820", "Requests at temperature 0 are drawn at 1.", _drawing(_TEMPERATURES["warm"])),
        ("OWN-4823", "At temperature 0 the law of temperature 1 is handed over.", _recording(_TEMPERATURES["warm"])),
        ("OWN-4821", "A request is drawn on the noise of another.", _drawing(_NOISE["of another request"])),
        ("OWN-4822", "All drafts of a request are drawn on one noise.", _drawing(_NOISE["of one draft"])),
    ),
)
