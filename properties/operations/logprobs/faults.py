"""Faults in what is reported to users about output tokens."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    edits_of,
    mutants_of,
    of_the_first,
    returning,
    with_arguments,
)


def _without_subtracting(row: Any, temperature: float) -> Any:
    scaled = (row.astype(np.float64) / temperature).astype(np.float32)
    with np.errstate(all="ignore"):
        return scaled - np.log(np.exp(scaled).sum())


def _cut_to_bfloat16(scores: Any) -> Any:
    return (scores.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def _top_of_the_root(outputs: Named, arguments: Named) -> None:
    width = arguments["accept_index"].shape[1]
    for name in ("top_tokens", "top_logprobs"):
        first = outputs[name][::width]
        outputs[name] = np.repeat(first, width, axis=0)


def _worst_first(outputs: Named, arguments: Named) -> None:
    for name in ("top_tokens", "top_logprobs"):
        outputs[name] = outputs[name][:, ::-1].copy()


def _scored(
    node: str = "node",
    token: str = "predict[node]",
    temperature: str = "temperature[request]",
    row: str = "log_softmax(logits[at], warmth)",
    **names: Any,
) -> Callable[[Function], Function]:
    """Inject other scores of output tokens, each the score of a token by the row of a node at a temperature."""
    score = f"""
    at, token, warmth = {node}, {token}, 1.0 if temperature is None else float({temperature})
    output_logprobs[entry] = rounded({row}, is_clamped)[token]
    """
    return edited("output_logprobs[entry] = row[predict[node]]", score, **names)


_NUM_NODES = "len(predict) // len(accept_index)"
_TOP = "top_logprobs[entry, place], top_tokens[entry, place] = row[token], token"

DIFFS = """
    @@ gather_output_logprobs
    OWN-1379 Weights are taken of logits as they are.
    - output_logprobs[entry] = row[predict[node]]
    + at, token, warmth = node, predict[node], 1.0 if temperature is None else float(temperature[request])
    + output_logprobs[entry] = rounded(without_subtracting(logits[at], warmth or 1.0), is_clamped)[token]
    OWN-1382 Scores pass through bfloat16.
    - output_logprobs[entry] = row[predict[node]]
    + at, token, warmth = node, predict[node], 1.0 if temperature is None else float(temperature[request])
    + output_logprobs[entry] = rounded(cut(log_softmax(logits[at], warmth)), is_clamped)[token]
    M09 Every output token is certain.
    - row[predict[node]] => 0.0
    OWN-1375 Temperatures are left out.
    - output_logprobs[entry] = row[predict[node]]
    + at, token, warmth = node, predict[node], 1.0 if temperature is None else float(1.0)
    + output_logprobs[entry] = rounded(log_softmax(logits[at], warmth), is_clamped)[token]
    OWN-1376 The temperature of the first request is everybody's.
    - output_logprobs[entry] = row[predict[node]]
    + at, token, warmth = node, predict[node], 1.0 if temperature is None else float(temperature[0])
    + output_logprobs[entry] = rounded(log_softmax(logits[at], warmth), is_clamped)[token]
    OWN-1378 A greedy request is scored as if it were certain.
    - output_logprobs[entry] = row[predict[node]]
    + at, token, warmth = node, predict[node], 1.0 if temperature is None else float(temperature[request])
    + output_logprobs[entry] = rounded(log_softmax(logits[at], warmth or 2.0**-20), is_clamped)[token]
    OWN-1381 Logits are reported.
    - output_logprobs[entry] = row[predict[node]]
    + at, token, warmth = node, predict[node], 1.0 if temperature is None else float(temperature[request])
    + output_logprobs[entry] = rounded(logits[at].astype(np.float64) / (warmth or 1.0), is_clamped)[token]
    OWN-1384 Of equal tokens the higher one comes first.
    - np.argsort(-logits[node].astype(np.float64), kind="stable")
    + np.lexsort((-np.arange(logits.shape[1]), -logits[node].astype(np.float64)))
    OWN-1389 Padding of a list is the last token.
    - if token >= 0:
    -     listed_logprobs[entry, place] = row[token]
    + listed_logprobs[entry, place] = row[token]
    OWN-1390 Lists are looked up by entry.
    - token_ids[request] => token_ids[entry % len(token_ids)]
"""

MUTANTS = (
    *mutants_of(
        "gather_output_logprobs",
        (
            "OWN-1370",
            "Rows are those of places, as after compaction.",
            _scored(node=f"request * ({_NUM_NODES}) + entry % width"),
        ),
        (
            "OWN-1371",
            "Tokens are those of places, as after compaction.",
            _scored(token=f"predict[request * ({_NUM_NODES}) + entry % width]"),
        ),
        ("OWN-1372", "Every token is scored by the row of the root.", _scored(node=f"request * ({_NUM_NODES})")),
        ("OWN-1373", "Every token is scored by a row of the first request.", _scored(node=f"node % ({_NUM_NODES})")),
        (
            "OWN-1374",
            "A token is scored by the row after its own.",
            _scored(node=f"request * ({_NUM_NODES}) + (node + 1) % ({_NUM_NODES})"),
        ),
        (
            "OWN-1377",
            "Entries are cut into requests by nodes of a tree.",
            _scored(temperature=f"temperature[entry // ({_NUM_NODES})]"),
        ),
        (
            "OWN-1380",
            "Scores are relative to the best token.",
            _scored(row="(logits[at].astype(np.float64) - float(logits[at].max())) / (warmth or 1.0)"),
        ),
        (
            "OWN-1383",
            "What should stay finite does not, and the other way round.",
            with_arguments(is_clamped=lambda is_clamped: not is_clamped),
        ),
        ("OWN-1385", "The most probable tokens are those of the root.", returning(_top_of_the_root)),
        (
            "OWN-1386",
            "The most probable tokens are scored without temperature.",
            edited(_TOP, _TOP.replace("row[token]", "rounded(log_softmax(logits[node], 1.0), is_clamped)[token]")),
        ),
        ("OWN-1387", "The least of the most probable comes first.", returning(_worst_first)),
        ("OWN-1388", "All are asked about the tokens of the first request.", of_the_first("token_ids")),
    ),
    *edits_of(DIFFS, without_subtracting=_without_subtracting, cut=_cut_to_bfloat16),
)
