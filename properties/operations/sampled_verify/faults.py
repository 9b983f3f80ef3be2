"""Faults in sampled verify: rows that the target did not draw, other noise, and walks that are not along the draws."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.host.noise import stream_key, stream_uniforms
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    given,
    instead,
    mutants_of,
    returning,
    with_arguments,
)
from specsim.properties.operations.verify.faults import children_after, walking
from specsim.reference.probabilities import target_probabilities
from specsim.reference.sampled_verify import race_times

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


def _always_warm(arguments: Named) -> None:
    temperature = arguments["temperature"]
    arguments["temperature"] = np.where(temperature > 0, np.float32(1), temperature).astype(np.float32)


def _seed_of_the_batch_row(arguments: Named) -> None:
    seeds = arguments["seeds"]
    arguments["seeds"] = seeds ^ np.arange(len(seeds), dtype=np.int64)


def _position_of_the_node_number(arguments: Named) -> None:
    positions = arguments["positions"]
    if positions.size:
        arguments["positions"] = np.minimum(positions[:, :1], MASK - 2**16) + np.arange(positions.shape[1])


def _seeds_and_positions_added(arguments: Named) -> None:
    seeds, positions = arguments["seeds"], arguments["positions"]
    arguments["positions"] = (positions + seeds[:, None] % MASK) % (MASK - 1)
    arguments["seeds"] = np.zeros_like(seeds)


def _racing(
    key_of: Callable[[int, int], Any] = lambda seed, position: stream_key("token", seed, position + 1),
    exponential: Callable[[Any], Any] = lambda uniform: -np.log1p(-uniform),
) -> Callable[[Function], Function]:
    """Inject races with other keys, or other times."""

    def draw(**arguments: Any) -> Any:
        seeds, positions = arguments.pop("seeds"), arguments.pop("positions")
        num_nodes = positions.shape[1]
        rows = target_probabilities(**arguments, num_draft_tokens=num_nodes)
        drawn = np.zeros(positions.shape, dtype=np.int64)
        for request, node in np.ndindex(*positions.shape):
            row = rows[request * num_nodes + node]
            uniform = stream_uniforms(key_of(int(seeds[request]), int(positions[request, node])), len(row))
            drawn[request, node] = np.argmin(race_times(row, exponential(uniform)))
        return drawn

    return instead(draw)


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
        ("OWN-4204", "Rows are drawn at temperature 1.", given(_always_warm)),
        ("OWN-4205", "The token after a prompt is the largest logit.", returning(_first_token_greedy)),
        ("OWN-4206", "The key has the row of the batch.", given(_seed_of_the_batch_row)),
        ("OWN-4207", "The key has the number of the node.", given(_position_of_the_node_number)),
        ("OWN-4208", "Seed and position are added up.", given(_seeds_and_positions_added)),
        ("OWN-4209", "Half of the seed is left out.", with_arguments(seeds=lambda seeds: seeds & MASK)),
        (
            "OWN-4210",
            "The key has the position of the node, not of its token.",
            _racing(key_of=lambda seed, position: stream_key("token", seed, position)),
        ),
        (
            "OWN-4211",
            "The noise is that of drafts.",
            _racing(key_of=lambda seed, position: stream_key("draft", seed, position + 1)),
        ),
        ("OWN-4212", "Arrivals are uniform.", _racing(exponential=lambda uniform: uniform)),
        ("OWN-4213", "Top-p is left out.", with_arguments(top_p=np.ones_like)),
        (
            "OWN-4214",
            "Greedy requests are drawn.",
            with_arguments(temperature=lambda values: np.where(values == 0, np.float32(1), values)),
        ),
    ),
)
