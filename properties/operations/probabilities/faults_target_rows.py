"""Faults in the target's distributions: temperature and filters."""

from functools import partial

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, mutants_of, of_the_first, returning

_row = partial(edited, within="distribution")
_filters = partial(edited, within="filtered")
_ROW = "distribution(logits[row], *filters)"
_FIRST_LARGEST = "np.argmax(logits.astype(np.float32))"
_GREEDY = f"np.asarray(np.arange(len(logits)) == {_FIRST_LARGEST}).astype(np.float32)"
_BY_K, _BY_P = "by_k = keep_top_k(softened, top_k)", "by_p = keep_top_p(by_k, top_p, is_enough)"
_HEATED_LAST = """
row = filtered(softmax(logits.astype(np.float64)), top_k, top_p, min_p)[-1].astype(np.float64)
weights = (row / row.max()) ** (1 / temperature)
return rounded(weights, weights.sum())
"""
_DEFAULTS_FOR_DRAFTS = f"""
if row % num_draft_tokens < num_draft_tokens - 1:
    filters = (1.0, 2**30, 1.0, 0.0)
target_probs[row] = {_ROW}
"""


def _largest_not_taken_away(outputs: Named, arguments: Named) -> None:
    temperature = np.maximum(np.repeat(arguments["temperature"], arguments["num_draft_tokens"]), np.float32(2**-20))[
        :, None
    ]
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(arguments["logits"].astype(np.float32) / temperature)
        total = weights.sum(axis=1, keepdims=True)
    lost = ~np.isfinite(total) | (total == 0)
    outputs["target_probs"] = np.where(lost, np.float32(0), outputs["target_probs"])


MUTANTS = mutants_of(
    "target_probabilities",
    (
        "R10",
        "Rows of drafts get default sampling parameters.",
        edited(f"target_probs[row] = {_ROW}", _DEFAULTS_FOR_DRAFTS),
    ),
    (
        "R11",
        "A filtered row becomes its most probable token.",
        edited(_ROW, f"np.arange(logits.shape[1]) == {_ROW}.argmax()"),
    ),
    (
        "OWN-236",
        "A row has the parameters of its place in the batch.",
        edited("row // num_draft_tokens", 'row % axes["request"]'),
    ),
    (
        "OWN-237",
        "Top-p comes before top-k.",
        _filters(f"{_BY_K}\n{_BY_P}", "by_k = keep_top_p(softened, top_p, is_enough)\nby_p = keep_top_k(by_k, top_k)"),
    ),
    (
        "OWN-238",
        "Min-p comes first.",
        _filters(
            "keep_min_p(by_p, min_p, reaches)",
            "by_p",
            _BY_K,
            f"softened = keep_min_p(softened, min_p, reaches)\n{_BY_K}",
        ),
    ),
    (
        "OWN-239",
        "Temperature comes after the filters.",
        _row(
            "return filtered(softmax(logits.astype(np.float64) / temperature), top_k, top_p, min_p)[-1]", _HEATED_LAST
        ),
    ),
    (
        "OWN-240",
        "At temperature 0 the last of equal logits is taken.",
        _row(_FIRST_LARGEST, "len(logits) - 1 - np.argmax(logits[::-1].astype(np.float32))"),
    ),
    (
        "OWN-241",
        "At temperature 0 equal logits share.",
        _row(_GREEDY, "rounded(logits == logits.max(), (logits == logits.max()).sum())"),
    ),
    (
        "OWN-242",
        "Logits are multiplied by the temperature.",
        _row("logits.astype(np.float64) / temperature", "logits.astype(np.float64) * temperature"),
    ),
    ("OWN-243", "Every request has the filters of the first.", of_the_first("top_k", "top_p", "min_p")),
    ("OWN-244", "Exponents overflow before they are divided.", returning(_largest_not_taken_away)),
    (
        "OWN-245",
        "Forbidden tokens keep a little mass.",
        edited(_ROW, f"np.where(np.isneginf(logits[row].astype(np.float32)), 1e-9, {_ROW})"),
    ),
)
