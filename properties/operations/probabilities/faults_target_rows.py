"""Faults in the target's distributions: temperature and filters."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Mutant, Named, given, instead, of_the_first, returning

Array = Any
_PARAMETERS = ("temperature", "top_k", "top_p", "min_p")


def _defaults_for_drafts(correct: Function) -> Function:
    def change(outputs: Named, arguments: Named) -> None:
        shape = arguments["temperature"].shape
        plain = correct(
            **{
                **arguments,
                "temperature": np.ones(shape, dtype=np.float32),
                "top_k": np.full(shape, 2**30, dtype=np.int32),
                "top_p": np.ones(shape, dtype=np.float32),
                "min_p": np.zeros(shape, dtype=np.float32),
            }
        )
        is_draft = np.arange(len(plain)) % arguments["num_draft_tokens"] < arguments["num_draft_tokens"] - 1
        outputs["target_probs"] = np.where(is_draft[:, None], plain, outputs["target_probs"])

    return returning(change)(correct)


def _best_of_the_filtered(outputs: Named, arguments: Named) -> None:
    rows = outputs["target_probs"]
    outputs["target_probs"] = (np.arange(rows.shape[1]) == rows.argmax(axis=1)[:, None]).astype(np.float32)


def _rows_of(arguments: Named, name: str) -> Array:
    return np.repeat(arguments[name], arguments["num_draft_tokens"])


def _parameters_by_place(correct: Function) -> Function:
    def call(**arguments: Any) -> Array:
        count = len(arguments["logits"])
        places = np.arange(count) % max(len(arguments["temperature"]), 1)
        moved = {name: arguments[name][places] for name in _PARAMETERS}
        return correct(**{**arguments, **moved, "num_draft_tokens": 1})

    return instead(call)(correct)


def _filtered(order: str) -> Callable[..., Array]:
    """Return a composition that applies its steps in another order: t, k, p, m, and h, a temperature at the end."""

    def call(**arguments: Any) -> Array:
        per_row = {name: _rows_of(arguments, name) for name in _PARAMETERS}
        rows = []
        for row, logits in enumerate(arguments["logits"].astype(np.float64)):
            temperature, top_k, top_p, min_p = (per_row[name][row] for name in _PARAMETERS)
            rows.append(_row(logits, order, float(temperature), int(top_k), float(top_p), float(min_p)))
        return np.array(rows, dtype=np.float32).reshape(arguments["logits"].shape)

    return call


def _row(logits: Array, order: str, temperature: float, top_k: int, top_p: float, min_p: float) -> Array:
    if temperature == 0:
        return np.arange(len(logits)) == np.argmax(logits)
    row = np.exp((logits - logits.max()) / (1 if "h" in order else temperature))
    row /= row.sum()
    for step in order:
        kept = np.ones(len(row), dtype=np.bool_)
        if step == "k":
            kept = row >= np.sort(row)[::-1][min(top_k, len(row)) - 1]
        elif step == "p" and top_p < 1:
            kept = np.array([row[row > value].sum() for value in row]) < top_p
        elif step == "m":
            kept = row >= min_p * row.max()
        elif step == "h":
            row = np.power(row / row.max(), 1 / temperature)
        row = np.where(kept, row, 0.0)
        row /= row.sum()
    return row


def _last_of_equals(outputs: Named, arguments: Named) -> None:
    cold = _rows_of(arguments, "temperature") == 0
    logits = arguments["logits"].astype(np.float32)
    best = logits.shape[1] - 1 - np.argmax(logits[:, ::-1], axis=1)
    one_hot = (np.arange(logits.shape[1]) == best[:, None]).astype(np.float32)
    outputs["target_probs"] = np.where(cold[:, None], one_hot, outputs["target_probs"])


def _mass_among_equals(outputs: Named, arguments: Named) -> None:
    cold = _rows_of(arguments, "temperature") == 0
    logits = arguments["logits"].astype(np.float32)
    best = (logits == logits.max(axis=1, keepdims=True)).astype(np.float32)
    outputs["target_probs"] = np.where(cold[:, None], best / best.sum(axis=1, keepdims=True), outputs["target_probs"])


def _temperature_times(arguments: Named) -> None:
    temperature = arguments["temperature"]
    arguments["temperature"] = np.where(temperature == 0, temperature, 1 / np.maximum(temperature, np.float32(2**-20)))


def _largest_not_taken_away(outputs: Named, arguments: Named) -> None:
    temperature = np.maximum(_rows_of(arguments, "temperature"), np.float32(2**-20))[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(arguments["logits"].astype(np.float32) / temperature)
        total = weights.sum(axis=1, keepdims=True)
    lost = ~np.isfinite(total) | (total == 0)
    outputs["target_probs"] = np.where(lost, np.float32(0), outputs["target_probs"])


def _forbidden_tokens_keep_a_little(outputs: Named, arguments: Named) -> None:
    rows = outputs["target_probs"]
    outputs["target_probs"] = np.where(np.isneginf(arguments["logits"].astype(np.float32)), np.float32(1e-9), rows)


_TARGET = "target_probabilities"

MUTANTS = (
    Mutant("R10", _TARGET, "Rows of drafts get default sampling parameters.", _defaults_for_drafts),
    Mutant("R11", _TARGET, "A filtered row becomes its most probable token.", returning(_best_of_the_filtered)),
    Mutant("OWN-236", _TARGET, "A row has the parameters of its place in the batch.", _parameters_by_place),
    Mutant("OWN-237", _TARGET, "Top-p comes before top-k.", instead(_filtered("pkm"))),
    Mutant("OWN-238", _TARGET, "Min-p comes first.", instead(_filtered("mkp"))),
    Mutant("OWN-239", _TARGET, "Temperature comes after the filters.", instead(_filtered("kpmh"))),
    Mutant("OWN-240", _TARGET, "At temperature 0 the last of equal logits is taken.", returning(_last_of_equals)),
    Mutant("OWN-241", _TARGET, "At temperature 0 equal logits share.", returning(_mass_among_equals)),
    Mutant("OWN-242", _TARGET, "Logits are multiplied by the temperature.", given(_temperature_times)),
    Mutant("OWN-243", _TARGET, "Every request has the filters of the first.", of_the_first("top_k", "top_p", "min_p")),
    Mutant("OWN-244", _TARGET, "Exponents overflow before they are divided.", returning(_largest_not_taken_away)),
    Mutant("OWN-245", _TARGET, "Forbidden tokens keep a little mass.", returning(_forbidden_tokens_keep_a_little)),
)
