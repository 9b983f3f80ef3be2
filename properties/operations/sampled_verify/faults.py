"""Faults in sampled verify: rows that the target did not draw, other noise, and walks that are not along the draws."""

from typing import Any

import numpy as np

from specsim.host.noise import stream_uniforms
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Mutant, Named, given, mutants_of, returning, with_arguments
from specsim.properties.operations.verify.faults import BONUS, SEARCH, TOKENS_ARE_OUTPUT, children_of

MASK = 2**32 - 1


def _largest(arguments: Named) -> Any:
    rows = np.argmax(arguments["logits"].astype(np.float32), axis=1)
    return rows.reshape(arguments["positions"].shape).astype(np.int64)


def _drafts_judged_greedily(outputs: Named, arguments: Named) -> None:
    largest = _largest(arguments)
    outputs["target_predict"] = np.concatenate([largest[:, :-1], outputs["target_predict"][:, -1:]], axis=1)


def _first_token_greedy(outputs: Named, arguments: Named) -> None:
    if arguments["positions"].shape[1] == 1:
        outputs["target_predict"] = _largest(arguments)


def _position_of_the_node_number(arguments: Named) -> None:
    positions = arguments["positions"]
    if positions.size:
        arguments["positions"] = np.minimum(positions[:, :1], MASK - 2**16) + np.arange(positions.shape[1])


_SEED, _POSITION = "int(seeds[request])", "int(positions[request, node])"
_DRAW, _WALK = "sample_target_predict", "verify_tree_greedy"

_FRESH_BONUS = """
first = retrieve_next_token[request, last]
predict[retrieve_index[request, last]] = target_predict[request, first if first >= 0 else last]
"""
_SEARCH_BY_OWN_DRAWS = """
node, row = retrieve_next_token[request, last], last
while node != -1 and candidates[request, node] != target_predict[request, row]:
    node, row = retrieve_next_sibling[request, node], node
"""
_BONUS_OF_THE_LAST_CHILD = """
before = [last, *children_of(retrieve_next_token[request], retrieve_next_sibling[request])[last]]
predict[retrieve_index[request, last]] = target_predict[request, before[max(len(before) - 2, 0)]]
"""
_SEARCH_ON = f"""
{SEARCH}
first = retrieve_next_token[request, last]
below = retrieve_next_token[request, first] if first >= 0 else -1
if node == -1 and below >= 0 and candidates[request, below] == target_predict[request, first]:
    node = first
"""

MUTANTS: tuple[Mutant, ...] = (
    *mutants_of(
        _WALK,
        # Where all rows are alike, the draw of another row is a fresh one.
        ("OWN-4200", "At a mismatch a fresh token is drawn.", edited(*TOKENS_ARE_OUTPUT, BONUS, _FRESH_BONUS)),
        (
            "OWN-4201",
            "Every child is compared with a draw of its own.",
            edited(
                SEARCH,
                _SEARCH_BY_OWN_DRAWS,
                *TOKENS_ARE_OUTPUT,
                BONUS,
                _BONUS_OF_THE_LAST_CHILD,
                children_of=children_of,
            ),
        ),
        ("OWN-4202", "The walk goes on after a mismatch.", edited(SEARCH, _SEARCH_ON, *TOKENS_ARE_OUTPUT)),
    ),
    *mutants_of(
        _DRAW,
        (
            "OWN-4203",
            "Drafts are judged by the largest logit, the last row is drawn.",
            returning(_drafts_judged_greedily),
        ),
        (
            "OWN-4204",
            "Rows are drawn at temperature 1.",
            with_arguments(temperature=lambda values: np.where(values > 0, np.float32(1), values)),
        ),
        ("OWN-4205", "The token after a prompt is the largest logit.", returning(_first_token_greedy)),
        ("OWN-4206", "The key has the row of the batch.", edited(_SEED, f"{_SEED} ^ request")),
        ("OWN-4207", "The key has the number of the node.", given(_position_of_the_node_number)),
        (
            "OWN-4208",
            "Seed and position are added up.",
            edited(_SEED, "0", _POSITION, f"({_POSITION} + {_SEED} % {MASK}) % {MASK - 1}"),
        ),
        ("OWN-4209", "Half of the seed is left out.", with_arguments(seeds=lambda seeds: seeds & MASK)),
        ("OWN-4210", "The key has the position of the node, not of its token.", edited(f"{_POSITION} + 1", _POSITION)),
        ("OWN-4211", "The noise is that of drafts.", edited('"token"', '"draft"')),
        (
            "OWN-4212",
            "Arrivals are uniform.",
            edited('arrivals(key, axes["vocab"])', 'uniforms(key, axes["vocab"])', uniforms=stream_uniforms),
        ),
        ("OWN-4213", "Top-p is left out.", with_arguments(top_p=np.ones_like)),
        (
            "OWN-4214",
            "Greedy requests are drawn.",
            with_arguments(temperature=lambda values: np.where(values == 0, np.float32(1), values)),
        ),
    ),
)
