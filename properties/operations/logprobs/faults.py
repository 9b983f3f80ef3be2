"""Faults in what is reported to users about output tokens."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Function, Named, given, mutants_of, returning
from specsim.reference.logprobs import log_softmax, rounded

Array = Any


def _scored(
    node_of: Any = lambda node, place, first, num_nodes: node,
    token_of: Any = lambda predict, node, place, first: predict[node],
    temperature_of: Any = lambda temperature, request, entry, num_nodes: temperature[request],
    row_of: Any = log_softmax,
    last: Any = lambda value: value,
) -> Callable[[Function], Function]:
    """Inject other scores of output tokens."""

    def change(outputs: Named, arguments: Named) -> None:
        paths, predict, logits = arguments["accept_index"], arguments["predict"], arguments["logits"]
        num_nodes = len(predict) // max(len(paths), 1)
        temperature = arguments["temperature"]
        for entry, node in enumerate(paths.reshape(-1).tolist()):
            request, place = divmod(entry, paths.shape[1])
            if node < 0:
                continue
            first = request * num_nodes
            row = logits[node_of(node, place, first, num_nodes) % len(logits)].astype(np.float64)
            row = np.where(np.isfinite(row).any(), row, 0.0)
            one = 1.0 if temperature is None else float(temperature_of(temperature, request, entry, num_nodes))
            token = int(token_of(predict, node, place, first)) % len(row)
            with np.errstate(all="ignore"):
                scores = rounded(row_of(row, one), arguments["is_clamped"])
            outputs["output_logprobs"][entry] = last(scores[token])

    return returning(change)


def _without_subtracting(row: Array, temperature: float) -> Array:
    weights = np.exp((row / (temperature or 1.0)).astype(np.float32))
    return (row / (temperature or 1.0)).astype(np.float32) - np.log(weights.sum())


def _not_normalised(row: Array, temperature: float) -> Array:
    return (row - row.max()) / (temperature or 1.0)


def _through_bfloat16(row: Array, temperature: float) -> Array:
    exact = log_softmax(row, temperature).astype(np.float32)
    return (exact.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def _temperature_zero_is_greedy(row: Array, temperature: float) -> Array:
    return log_softmax(row, temperature or 2.0**-20)


def _clamped_the_other_way(arguments: Named) -> None:
    arguments["is_clamped"] = not arguments["is_clamped"]


def _later_of_equals(outputs: Named, arguments: Named) -> None:
    for entry, node in enumerate(arguments["accept_index"].reshape(-1).tolist()):
        if node >= 0:
            row = arguments["logits"][node].astype(np.float64)
            ranked = np.lexsort((-np.arange(len(row)), -row))
            outputs["top_tokens"][entry] = ranked[: arguments["num_top"]]


def _top_of_the_root(outputs: Named, arguments: Named) -> None:
    width = arguments["accept_index"].shape[1]
    for name in ("top_tokens", "top_logprobs"):
        first = outputs[name][::width]
        outputs[name] = np.repeat(first, width, axis=0)


def _top_without_temperature(outputs: Named, arguments: Named) -> None:
    for entry, node in enumerate(arguments["accept_index"].reshape(-1).tolist()):
        if node >= 0:
            scores = rounded(log_softmax(arguments["logits"][node], 1.0), arguments["is_clamped"])
            outputs["top_logprobs"][entry] = scores[outputs["top_tokens"][entry]]


def _worst_first(outputs: Named, arguments: Named) -> None:
    for name in ("top_tokens", "top_logprobs"):
        outputs[name] = outputs[name][:, ::-1].copy()


def _tokens_of_the_first_request(arguments: Named) -> None:
    asked = arguments["token_ids"]
    arguments["token_ids"] = np.repeat(asked[:1], len(asked), axis=0)


def _padding_wraps(arguments: Named) -> None:
    vocab = arguments["logits"].shape[1]
    arguments["token_ids"] = np.where(arguments["token_ids"] < 0, vocab - 1, arguments["token_ids"])


def _listed_by_entry(outputs: Named, arguments: Named) -> None:
    asked, width, temperature = arguments["token_ids"], arguments["accept_index"].shape[1], arguments["temperature"]
    for entry, node in enumerate(arguments["accept_index"].reshape(-1).tolist()):
        if node >= 0:
            one = 1.0 if temperature is None else float(temperature[entry // width])
            row = rounded(log_softmax(arguments["logits"][node], one), arguments["is_clamped"])
            tokens = asked[entry % len(asked)]
            outputs["listed_logprobs"][entry] = np.where(tokens < 0, 0.0, row[tokens])


MUTANTS = mutants_of(
    "gather_output_logprobs",
    ("M09", "Every output token is certain.", _scored(last=lambda value: 0.0)),
    (
        "OWN-1370",
        "Rows are those of places, as after compaction.",
        _scored(node_of=lambda node, place, first, num_nodes: first + place),
    ),
    (
        "OWN-1371",
        "Tokens are those of places, as after compaction.",
        _scored(token_of=lambda predict, node, place, first: predict[first + place]),
    ),
    (
        "OWN-1372",
        "Every token is scored by the row of the root.",
        _scored(node_of=lambda node, place, first, num_nodes: first),
    ),
    (
        "OWN-1373",
        "Every token is scored by a row of the first request.",
        _scored(node_of=lambda node, place, first, num_nodes: node - first),
    ),
    (
        "OWN-1374",
        "A token is scored by the row after its own.",
        _scored(node_of=lambda node, place, first, num_nodes: first + (node - first + 1) % num_nodes),
    ),
    (
        "OWN-1375",
        "Temperatures are left out.",
        _scored(temperature_of=lambda temperature, request, entry, num_nodes: 1.0),
    ),
    (
        "OWN-1376",
        "The temperature of the first request is everybody's.",
        _scored(temperature_of=lambda temperature, request, entry, num_nodes: temperature[0]),
    ),
    (
        "OWN-1377",
        "Entries are cut into requests by nodes of a tree.",
        _scored(temperature_of=lambda temperature, request, entry, num_nodes: temperature[entry // num_nodes]),
    ),
    ("OWN-1378", "A greedy request is scored as if it were certain.", _scored(row_of=_temperature_zero_is_greedy)),
    ("OWN-1379", "Weights are taken of logits as they are.", _scored(row_of=_without_subtracting)),
    ("OWN-1380", "Scores are relative to the best token.", _scored(row_of=_not_normalised)),
    ("OWN-1381", "Logits are reported.", _scored(row_of=lambda row, temperature: row / (temperature or 1.0))),
    ("OWN-1382", "Scores pass through bfloat16.", _scored(row_of=_through_bfloat16)),
    ("OWN-1383", "What should stay finite does not, and the other way round.", given(_clamped_the_other_way)),
    ("OWN-1384", "Of equal tokens the higher one comes first.", returning(_later_of_equals)),
    ("OWN-1385", "The most probable tokens are those of the root.", returning(_top_of_the_root)),
    ("OWN-1386", "The most probable tokens are scored without temperature.", returning(_top_without_temperature)),
    ("OWN-1387", "The least of the most probable comes first.", returning(_worst_first)),
    ("OWN-1388", "All are asked about the tokens of the first request.", given(_tokens_of_the_first_request)),
    ("OWN-1389", "Padding of a list is the last token.", given(_padding_wraps)),
    ("OWN-1390", "Lists are looked up by entry.", returning(_listed_by_entry)),
)
