"""Faults in sampled verify: rows that the target did not draw, other noise, and walks that are not along the draws."""

from typing import Any

import numpy as np

from specsim.host.noise import stream_uniforms
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Mutant, Named, given, mutants_of, returning, with_arguments
from specsim.properties.operations.verify.faults import children_after, walking

MASK = 2**32 - 1


def _of_the_first_child(arguments: Named, request: int, node: int) -> Any:
    """Draw once more at a mismatch: where all rows are alike, the draw of another row is a fresh one."""
    children = children_after(arguments, request, node)
    return arguments["target_predict"][request, children[0] if children else node]


def _of_siblings_before(arguments: Named, request: int, node: int, child: int) -> Any:
    """Draw once more for every child after the first."""
    before = [node, *children_after(arguments, request, node)]
    return arguments["target_predict"][request, before[before.index(child) - 1]]


def _after_the_last_child(arguments: Named, request: int, node: int) -> Any:
    """Return the draw that the last child was compared with."""
    before = [node, *children_after(arguments, request, node)]
    return arguments["target_predict"][request, before[max(len(before) - 2, 0)]]


def _past_a_mismatch(siblings: list[int], arguments: Named, request: int, node: int) -> list[int]:
    """Return children, the first of which counts as drawn where its own first child is drawn after it."""
    chosen, tokens = arguments["target_predict"][request], arguments["candidates"][request]
    matching = [child for child in siblings if tokens[child] == chosen[node]]
    below = children_after(arguments, request, siblings[0])[:1] if siblings and not matching else []
    if below and tokens[below[0]] == chosen[siblings[0]]:
        # NOTE: the walk compares with the choice after the node, so that the choice is made to fit.
        chosen[node] = tokens[siblings[0]]
    return siblings


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

MUTANTS: tuple[Mutant, ...] = (
    *mutants_of(
        _WALK,
        ("OWN-4200", "At a mismatch a fresh token is drawn.", walking(bonus_after=_of_the_first_child)),
        (
            "OWN-4201",
            "Every child is compared with a draw of its own.",
            walking(chosen_after=_of_siblings_before, bonus_after=_after_the_last_child),
        ),
        ("OWN-4202", "The walk goes on after a mismatch.", walking(children_of=_past_a_mismatch)),
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
