"""Faults of drawn drafts: rows that no draft was drawn from, and drafts that are drawn from no row that is recorded."""

from collections.abc import Callable

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    given,
    mutants_by_number,
    mutants_of,
    with_arguments,
)

_TEMPERATURE, _NOISE = "float(temperatures[request])", "arrivals[request, place]"
_RECORDED = "recorded_logits[request_rows] = walked"
_ROW = "walked[request, place, ids] = row"
_DRAW = f"_drawn(row, {_TEMPERATURE}, {_NOISE}.tolist())"
_KEPT = "[logit if column in kept else NO_LOGIT for column, logit in enumerate(row)]"
_LAW = "draft_probs[request, place, ids] = np.array(weights) / sum(weights)"
_RACE = f"column = _first_to_arrive(weights, {_NOISE}.tolist())"


def _recording(statement: str) -> Callable[[Function], Function]:
    """Inject a fault in the rows that a walk records."""
    return edited(_RECORDED, f"{statement}\n{_RECORDED}")


def _of_walks(name: str, first: int, logits: str, columns: str) -> tuple[Mutant, ...]:
    """Return the faults that any walk in a buffer can have."""
    faults = (
        (
            "Rows are recorded as divided by their temperature.",
            _recording("walked /= np.where(temperatures > 0, temperatures, 1)[:, None, None]"),
        ),
        (
            "Rows are recorded as cut to their two largest logits.",
            _recording("walked[walked < np.sort(walked, axis=2)[:, :, [-2]]] = NO_LOGIT"),
        ),
        (
            "Columns of the walk before are left in the buffer.",
            _recording("walked = np.where(np.isinf(walked), recorded_logits[request_rows], walked)"),
        ),
        (
            "Rows are recorded by the request's place in the batch.",
            _recording("request_rows = np.arange(num_requests)"),
        ),
        ("Drafts are drawn without their temperature.", edited(_TEMPERATURE, "float(temperatures[request] > 0)")),
        ("The temperature is applied twice.", edited(_TEMPERATURE, "float(temperatures[request] ** 2)")),
        ("Requests at temperature 0 are drawn at 1.", edited(_TEMPERATURE, "float(temperatures[request] or 1)")),
        ("Of each draft the row of the one before it is recorded.", _recording("walked = np.roll(walked, 1, axis=1)")),
        (
            "Rows are recorded by column, not by token.",
            edited(f"walked[request, place, {columns}]", "walked[request, place, : len(row)]"),
        ),
        ("A request is drawn on the noise of another.", edited(_NOISE, "arrivals[request - 1, place]")),
        ("All drafts of a request are drawn on one noise.", edited(_NOISE, "arrivals[request, 0]")),
        ("A walk clears the rows of all requests.", _recording("recorded_logits[...] = NO_LOGIT")),
        ("A logit of NaN counts as 0.", with_arguments(**{logits: np.nan_to_num})),
        ("A temperature below 0 counts as 0.", with_arguments(temperatures=lambda own: np.maximum(own, 0))),
        ("A row past the buffer counts as the last one.", given(_within_buffer)),
    )
    return mutants_of(name, *((f"OWN-{first + place}", *fault) for place, fault in enumerate(faults)))


def _within_buffer(arguments: Named) -> None:
    arguments["request_rows"] = np.minimum(arguments["request_rows"], len(arguments["recorded_logits"]) - 1)


def _weighed(temperature: str) -> str:
    """Return the weights that filters leave at a temperature."""
    return f"[one if one >= float(min_p[request]) else 0.0 for one in _weights(row, {temperature})]"


def _handing_over(weights: str) -> Callable[[Function], Function]:
    """Inject a fault in the law that is handed over; what is drawn from is right."""
    return edited(_LAW, f"weights = {weights}\n{_LAW}")


def _handed_over(probs: str) -> Callable[[Function], Function]:
    """Inject a fault in all laws that are handed over."""
    return edited("SampledChains(draft_tokens, draft_probs)", f"SampledChains(draft_tokens, {probs})")


def _racing(weights: str) -> Callable[[Function], Function]:
    """Inject a fault in what is drawn from; the law that is handed over is right."""
    return edited(_RACE, f"column = _first_to_arrive({weights}, {_NOISE}.tolist())")


MUTANTS = (
    *_of_walks("walk_markov_drafts", 4850, "base_logits", "ids"),
    *mutants_by_number(
        "walk_markov_drafts",
        {
            ("OWN-4865", "The row of the parallel forward is recorded, without what the draft before adds."): edited(
                _ROW, "walked[request, place, ids] = base"
            ),
            ("OWN-4866", "Rows are recorded before they are rounded."): edited(
                _ROW,
                "walked[request, place, ids] = np.where(np.isinf(row), row, base.astype(np.float32) + bias[token])",
            ),
            ("OWN-4867", "Temperatures are raised to the least one on one side only."): edited(
                "LEAST_DRAFT_TEMPERATURE", "LEAST_TEMPERATURE", within="_weights"
            ),
            ("OWN-4868", "A higher least temperature is drawn with."): edited(
                "LEAST_DRAFT_TEMPERATURE", "1e-3", within="_weights"
            ),
            ("OWN-4869", "Drafts are returned by column, not by token."): edited(
                "draft_tokens[request, place] = token", "draft_tokens[request, place] = column"
            ),
            ("OWN-4870", "All columns are drawn from, and candidates recorded."): edited(
                _DRAW,
                f"_drawn(whole, {_TEMPERATURE}, {_NOISE}.tolist())",
                f"row = {_KEPT}",
                f"whole, row = row, {_KEPT}",
            ),
            ("OWN-4871", "Every draft is recorded as if it stood after the root."): edited(
                _ROW,
                f"""
                row = _rounded(base.astype(np.float32) + bias[roots[request]], base_logits.dtype)
                walked[request, place, ids] = {_KEPT}
                """,
            ),
        },
    ),
    *_of_walks("walk_selector_drafts", 4872, "scores", "candidates[request, place]"),
    *mutants_by_number(
        "walk_selector_drafts",
        {
            ("OWN-4887", "Scores are recorded as of the first candidate."): edited(
                "walked[request, place, candidates[request, place]] = row",
                "walked[request, place, candidates[request, place]] = scores[request, place, 0]",
            ),
            ("OWN-4888", "Drafts are returned by candidate, not by token."): edited(
                "candidates[request, place, drawn]", "drawn"
            ),
        },
    ),
    *mutants_by_number(
        "sample_draft_chains",
        {
            ("OWN-4889", "Of each draft the law of the one before it is handed over."): _handed_over(
                "np.roll(draft_probs, 1, axis=1)"
            ),
            ("OWN-4890", "Laws are handed over without their temperature."): _handing_over(
                _weighed("float(temperature > 0)")
            ),
            ("OWN-4891", "Laws are handed over with their temperature twice."): _handing_over(
                _weighed("temperature**2")
            ),
            ("OWN-4892", "Drafts are handed over by column, not by token."): edited(
                "SampledChains(draft_tokens, draft_probs)",
                "SampledChains((draft_tokens[:, :, None] == np.array(ids)).argmax(axis=2), draft_probs)",
            ),
            ("OWN-4893", "Laws are handed over by column, not by token."): edited(
                "draft_probs[request, place, ids]", "draft_probs[request, place, : len(ids)]"
            ),
            ("OWN-4894", "The draft model is given columns in the place of tokens."): edited(
                "draft_tokens[:, :place].copy()", "(draft_tokens[:, :place, None] == np.array(ids)).argmax(axis=2)"
            ),
            ("OWN-4895", "Drafts are drawn after filters, laws handed over before them."): _handing_over(
                "_weights(logits, temperature)"
            ),
            ("OWN-4896", "Drafts are drawn before filters, laws handed over after them."): _racing(
                "_weights(logits, temperature)"
            ),
            ("OWN-4897", "What filters keep is not divided by its sum."): edited(
                "sum(weights)", "sum(_weights(logits, temperature))"
            ),
            ("OWN-4898", "Laws are handed over in bfloat16."): _handed_over('draft_probs.astype("bfloat16")'),
            ("OWN-4899", "The drawn token is handed over as certain."): _handed_over(
                "np.eye(vocab_size, dtype=np.float32)[draft_tokens]"
            ),
            ("OWN-4820", "Requests at temperature 0 are drawn at 1."): _racing(_weighed("temperature or 1.0")),
            ("OWN-4823", "At temperature 0 the law of temperature 1 is handed over."): _handing_over(
                _weighed("temperature or 1.0")
            ),
            ("OWN-4821", "A request is drawn on the noise of another."): edited(_NOISE, "arrivals[request - 1, place]"),
            ("OWN-4822", "All drafts of a request are drawn on one noise."): edited(_NOISE, "arrivals[request, 0]"),
        },
    ),
)
