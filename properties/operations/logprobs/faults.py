"""Faults in what is reported to users about output tokens."""

from collections.abc import Callable
from operator import not_
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, edits_of, mutants_by_operation, of_the_first, with_arguments


def _without_subtracting(row: Any, temperature: float) -> Any:
    scaled = (row.astype(np.float64) / temperature).astype(np.float32)
    with np.errstate(all="ignore"):
        return scaled - np.log(np.exp(scaled).sum())


def _cut_to_bfloat16(scores: Any) -> Any:
    return (scores.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


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
_PLACE = f"request * ({_NUM_NODES}) + entry % width"
_ROOT = f"request * ({_NUM_NODES})"
_TOP = "top_logprobs[entry, place], top_tokens[entry, place] = row[token], token"

_row_after = _scored(f"{_ROOT} + (node + 1) % ({_NUM_NODES})")
_cut_by_nodes = _scored(temperature=f"temperature[entry // ({_NUM_NODES})]")
_unsubtracted = _scored(row="without_subtracting(logits[at], warmth or 1.0)", without_subtracting=_without_subtracting)
_certain_if_greedy = _scored(row="log_softmax(logits[at], warmth or 2.0**-20)")
_relative = _scored(row="(logits[at].astype(np.float64) - float(logits[at].max())) / (warmth or 1.0)")
_halved = _scored(row="cut(log_softmax(logits[at], warmth))", cut=_cut_to_bfloat16)
_top_at_1 = edited(_TOP, _TOP.replace("row[token]", "rounded(log_softmax(logits[node], 1.0), is_clamped)[token]"))

DIFFS = """
    @@ gather_output_logprobs
    M09 Every output token is certain.
    - row[predict[node]] => 0.0
    OWN-1384 Of equal tokens the higher one comes first.
    - np.argsort(-logits[node].astype(np.float64), kind="stable")
    + np.lexsort((-np.arange(logits.shape[1]), -logits[node].astype(np.float64)))
    OWN-1385 The most probable tokens are those of the root.
      top_logprobs[entry, place], top_tokens[entry, place] = row[token], token
    + root = entry - entry % width
    + top_logprobs[entry], top_tokens[entry] = top_logprobs[root], top_tokens[root]
    OWN-1387 The least of the most probable comes first.
    - best_first[: axes["top"]] => best_first[: axes["top"]][::-1]
    OWN-1389 Padding of a list is the last token.
    - if token >= 0:
    -     listed_logprobs[entry, place] = row[token]
    + listed_logprobs[entry, place] = row[token]
    OWN-1390 Lists are looked up by entry.
    - token_ids[request] => token_ids[entry % len(token_ids)]
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    gather_output_logprobs=(
        ("OWN-1370", "Rows are those of places, as after compaction.", _scored(_PLACE)),
        ("OWN-1371", "Tokens are those of places, as after compaction.", _scored(token=f"predict[{_PLACE}]")),
        ("OWN-1372", "Every token is scored by the row of the root.", _scored(_ROOT)),
        ("OWN-1373", "Every token is scored by a row of the first request.", _scored(f"node % ({_NUM_NODES})")),
        ("OWN-1374", "A token is scored by the row after its own.", _row_after),
        ("OWN-1375", "Temperatures are left out.", _scored(temperature="1.0")),
        ("OWN-1376", "The temperature of the first request is everybody's.", _scored(temperature="temperature[0]")),
        ("OWN-1377", "Entries are cut into requests by nodes of a tree.", _cut_by_nodes),
        ("OWN-1378", "A greedy request is scored as if it were certain.", _certain_if_greedy),
        ("OWN-1379", "Weights are taken of logits as they are.", _unsubtracted),
        ("OWN-1380", "Scores are relative to the best token.", _relative),
        ("OWN-1381", "Logits are reported.", _scored(row="logits[at].astype(np.float64) / (warmth or 1.0)")),
        ("OWN-1382", "Scores pass through bfloat16.", _halved),
        ("OWN-1383", "What should stay finite does not, and the other way round.", with_arguments(is_clamped=not_)),
        ("OWN-1386", "The most probable tokens are scored without temperature.", _top_at_1),
        ("OWN-1388", "All are asked about the tokens of the first request.", of_the_first("token_ids")),
    ),
)
