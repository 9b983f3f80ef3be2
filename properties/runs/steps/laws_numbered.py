"""Laws of whole runs whose requests draft numbers of steps of their own, 0 included: outputs do not depend on them."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.host.positions import PositionCounters, count_positions
from specsim.properties.laws.checks import require, require_equal, states_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.steps.numbered_runs import (
    count_numbers,
    narrow_trees,
    numbered_grammars,
    numbered_runs,
    numbered_runs_of_eagle,
)
from specsim.properties.runs.workers.laws_state import check_goes_on
from specsim.simulation.comparing.lockstep import find_divergence
from specsim.simulation.worker import Iteration

Array = Any

_CALLED = ("argmax_target_predict", "target_verify_metadata", "verify_tree_greedy")
_READ = (*_CALLED, "traverse_tree")


def numbered_play(scenario: Scenario, backend: Backend) -> Play:
    """Return a play that counts what it reaches by the numbers of its requests."""
    return Play(scenario, backend, has_own_scheduler=True, observer=count_numbers)


def numbers_of_drafts_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """Outputs are those of plain decoding, no one accepts more than it drafts, and slots have one owner."""
    play = numbered_play(scenario, backend)
    for number, iteration in enumerate(play.iterations()):
        play.engine.scheduler.check_ledger()
        own, drafts = play.numbers.calls[number][1], iteration.num_accepted_drafts.tolist()
        is_possible = all(0 <= count <= most for count, most in zip(drafts, own, strict=True))
        require(is_possible, f"num_accepted_drafts of iteration {number}", drafts, f"at most {own}")
    play.require_outputs()


def nodes_beyond_a_number_are_no_drafts(backend: Backend, scenario: Scenario) -> None:
    """A verify reaches the nodes of each request down to its own depth; others hold no token and hang from nothing.

    A chain is as wide as its widest request, and figures are over the drafts that there were.
    """
    play, positions = numbered_play(scenario, backend), PositionCounters()
    for number, iteration in enumerate(play.iterations()):
        phase, own = play.last_verify_input(), play.numbers.calls[number][1]
        width = phase.num_draft_tokens
        if scenario.config.topk == 1:
            require(width == path_width(max(own)), f"num_draft_tokens of {own}", width, path_width(max(own)))
        depths = phase.positions.reshape(-1, width) - phase.seq_lens[:, None]
        is_draft = (depths > 0) & (depths <= np.array(own)[:, None])
        for request, kept in enumerate(is_draft):
            links = phase.retrieve_next_token[request].tolist(), phase.retrieve_next_sibling[request].tolist()
            drafts = sorted(_reached(*links))
            require_equal(f"drafts of request {request} in iteration {number}", drafts, np.flatnonzero(kept))
            tokens = phase.draft_token.reshape(-1, width)[request]
            beyond = tokens[1:][~kept[1:]].tolist()
            require(not any(beyond), f"tokens of request {request} beyond {own[request]} steps", beyond, "no drafts")
        positions = _require_figures(play, number, positions, iteration, depths * is_draft)


def whole_trees_lie_on_the_levels_of_their_nodes(backend: Backend, scenario: Scenario) -> None:
    """Where every request drafts all steps, figures are over the levels on which its best nodes lie, V1 or V2."""
    for is_v1 in (False, True):
        play, positions = Play(scenario.having(is_v1=is_v1), backend), PositionCounters()
        for number, iteration in enumerate(play.iterations()):
            phase = play.last_verify_input()
            depths = phase.positions.reshape(-1, phase.num_draft_tokens) - phase.seq_lens[:, None]
            positions = _require_figures(play, number, positions, iteration, depths)


def drafts_go_on_as_if_no_request_had_rested(backend: Backend, scenario: Scenario) -> None:
    """After every iteration both caches, and what starts the next drafts, are those of a fresh prefill."""
    play = numbered_play(scenario, backend)
    for _ in play.iterations():
        check_goes_on(play.engine, scenario)


def grammars_read_the_drafts_of_their_own_requests(backend: Backend, scenario: Scenario) -> None:
    """A request with a grammar outputs what plain decoding does under it, whatever its neighbours draft."""
    numbered_play(scenario, backend).run(checks_ledger=True).require_outputs()


def numbers_are_taken_as_the_reference_takes_them(backend: Backend, scenario: Scenario) -> None:
    """Every phase of every iteration hands over what the reference's does, request by request."""
    play, tried, room = Play(scenario), Play(scenario, backend), scenario.room
    find = partial(find_divergence, play.worker, tried.worker, scenario.requests(), schedule=scenario.schedule)
    divergence = find(max_batch=room.max_batch, shuffle_seed=room.shuffle_seed)
    require(divergence is None, "first divergence", divergence, "none")


def _require_figures(
    play: Play, number: int, before: PositionCounters, iteration: Iteration, depths: Array
) -> PositionCounters:
    """Count one verify, depths of drafts integer [request, node] and 0 for other nodes; the figures have to agree."""
    positions = count_positions(
        before, (depths > 0).sum(axis=1).tolist(), depths.max(axis=1).tolist(), iteration.num_accepted_drafts.tolist()
    )
    got = play.engine.positions
    require(got == positions, f"figures after iteration {number}", got, positions)
    return positions


def _reached(next_token: Sequence[int], next_sibling: Sequence[int]) -> Iterator[int]:
    """Yield the nodes that a walk from the root reaches, the root left out."""
    waiting = [next_token[0]]
    while waiting:
        node = waiting.pop()
        if node >= 0:
            yield node
            waiting += [next_token[node], next_sibling[node]]


PROPERTIES = states_of_runs(
    "numbered_engine",
    (numbers_of_drafts_change_no_output, numbered_runs, _CALLED, "P01"),
    (nodes_beyond_a_number_are_no_drafts, numbered_runs_of_eagle, _CALLED, "P25"),
    (whole_trees_lie_on_the_levels_of_their_nodes, narrow_trees, _CALLED, "P26"),
    (drafts_go_on_as_if_no_request_had_rested, numbered_runs_of_eagle, _CALLED, "P49"),
    (grammars_read_the_drafts_of_their_own_requests, numbered_grammars, _READ, "P53"),
    (numbers_are_taken_as_the_reference_takes_them, numbered_runs, _CALLED, ""),
    plays=OF_ENGINES,
)
