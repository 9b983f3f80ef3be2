"""Faults in sampled verify: rows that the target did not draw, other noise, and walks that are not along the draws."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.host.noise import stream_uniforms
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, edits_of, mutants_by_operation, with_arguments
from specsim.properties.operations.verify.faults import BONUS, SEARCH, TOKENS_ARE_OUTPUT

MASK = 2**32 - 1


def _with_temperature(is_at_1: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Inject a temperature of 1 for some."""
    return with_arguments(temperature=lambda values: np.where(is_at_1(values), np.float32(1), values))


_FRESH_BONUS = """
first = retrieve_next_token[request, last]
predict[retrieve_index[request, last]] = target_predict[request, first if first >= 0 else last]
"""
_GOES_ON = f"""
{SEARCH}
first = retrieve_next_token[request, last]
below = retrieve_next_token[request, first] if first >= 0 else -1
if node == -1 and below >= 0 and candidates[request, below] == target_predict[request, first]:
    node = first
"""


DIFFS = """
    @@ verify_tree_greedy
    OWN-4201 Every child is compared with a draw of its own.
    - node = retrieve_next_token[request, last]
    - while node != -1 and candidates[request, node] != target_predict[request, last]:
    -     node = retrieve_next_sibling[request, node]
    + node, row = retrieve_next_token[request, last], last
    + while node != -1 and candidates[request, node] != target_predict[request, row]:
    +     node, row = retrieve_next_sibling[request, node], node
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    - num_accepted_drafts[request] += 1
    + predict[retrieve_index[request, last]] = candidates[request, node]
    + num_accepted_drafts[request] += 1
    - predict[retrieve_index[request, last]] = target_predict[request, last]
    + row, node = last, retrieve_next_token[request, last]
    + while node != -1 and retrieve_next_sibling[request, node] != -1:
    +     row, node = node, retrieve_next_sibling[request, node]
    + predict[retrieve_index[request, last]] = target_predict[request, row]
    @@ sample_target_predict
    OWN-4203 Drafts are judged by the largest logit, the last row is drawn.
    - target_predict[request, node] = first_to_arrive(
    -     rows[request * axes["node"] + node], arrivals(key, axes["vocab"])
    - )
    + row = request * axes["node"] + node
    + drawn = first_to_arrive(rows[row], arrivals(key, axes["vocab"]))
    + target_predict[request, node] = drawn if node == axes["node"] - 1 else logits[row].astype(np.float32).argmax()
    OWN-4205 The token after a prompt is the largest logit.
    - target_predict[request, node] = first_to_arrive(
    -     rows[request * axes["node"] + node], arrivals(key, axes["vocab"])
    - )
    + row = request * axes["node"] + node
    + drawn = first_to_arrive(rows[row], arrivals(key, axes["vocab"]))
    + target_predict[request, node] = drawn if axes["node"] > 1 else logits[row].astype(np.float32).argmax()
    OWN-4207 The key has the number of the node.
    - int(positions[request, node]) => min(int(positions[request, 0]), 4294901759) + node
    OWN-4212 Arrivals are uniform.
    - arrivals(key, axes["vocab"]) => uniforms(key, axes["vocab"])
    OWN-4206 The key has the row of the batch.
    - int(seeds[request]) => int(seeds[request]) ^ request
    OWN-4208 Seed and position are added up.
    - int(seeds[request]) => 0
    - int(positions[request, node]) => (int(positions[request, node]) + int(seeds[request]) % 4294967295) % 4294967294
    OWN-4210 The key has the position of the node, not of its token.
    - int(positions[request, node]) + 1 => int(positions[request, node])
    OWN-4211 The noise is that of drafts.
    - "token" => "draft"
"""

MUTANTS = mutants_by_operation(
    edits_of(DIFFS, uniforms=stream_uniforms),
    verify_tree_greedy=(
        # Where all rows are alike, the draw of another row is a fresh one.
        ("OWN-4200", "At a mismatch a fresh token is drawn.", edited(*TOKENS_ARE_OUTPUT, BONUS, _FRESH_BONUS)),
        ("OWN-4202", "The walk goes on after a mismatch.", edited(SEARCH, _GOES_ON, *TOKENS_ARE_OUTPUT)),
    ),
    sample_target_predict=(
        ("OWN-4204", "Rows are drawn at temperature 1.", _with_temperature(lambda values: values > 0)),
        ("OWN-4209", "Half of the seed is left out.", with_arguments(seeds=lambda seeds: seeds & MASK)),
        ("OWN-4213", "Top-p is left out.", with_arguments(top_p=np.ones_like)),
        ("OWN-4214", "Greedy requests are drawn.", _with_temperature(lambda values: values == 0)),
    ),
)
