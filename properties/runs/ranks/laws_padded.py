"""Laws of whole runs on padded forwards: to buckets, without requests, and on several ranks in step."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.composite import composite
from specsim.properties.host.ranks.local_ranks import LocalGroup, run_threads
from specsim.properties.laws.checks import require, require_equal, states_of_runs
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.properties.runs.drafted import V2_WORKERS, drafted_by
from specsim.properties.runs.histories import scenarios, tree_scenarios, trees_or_any_scenario
from specsim.properties.runs.play import side_by_side
from specsim.properties.runs.ranks.padded_runs import (
    dropping,
    ends_of,
    forwards_of_an_iteration,
    padded_play,
    padded_runs,
    plain_play,
    rows_of_a_request,
)
from specsim.properties.runs.scenario import Arrival, Scenario
from specsim.reference.worker.pools import CARRIED
from specsim.simulation.models.agreement import Agreement, ForwardKind
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.ranks import run_rank
from specsim.simulation.requests import Request
from specsim.simulation.worker import Worker

ROWS_OF_AN_IDLE_RANK = 2
"""Requests of padding on which a rank without requests runs its forwards."""


def requests_of(scenario: Scenario, rank: int) -> list[Request]:
    """Return fresh requests of a rank."""
    ranks = scenario.ranks
    live = [one for one in range(ranks.num_ranks) if one != ranks.idle]
    dealt = cycle([one for one in live for _ in range(ranks.at_a_time)])
    return [request for request, owner in zip(scenario.requests(), dealt, strict=False) if owner == rank]


def padded_runs_are_plain_runs(backend: Backend, scenario: Scenario) -> None:
    """Padded to buckets, every iteration has the tokens and counts of a plain one, and leaves the same memory."""
    plays = plain_play(scenario), padded_play(scenario, backend, has_own_worker=True)[0]
    taken: set[int] = set()
    for number, (plain, padded) in enumerate(side_by_side(*plays)):
        taken |= {request.row for request in plays[0].engine.scheduler.holders}
        require((plain is None) == (padded is None), f"step {number}", padded, plain)
        if plain is not None and padded is not None:
            for name, expected in vars(plain).items():
                require_equal(f"{name} of step {number}", vars(padded)[name], expected)
        _require_state(number, *(_without_free_rows(one.worker.state(), taken) for one in reversed(plays)))
    _require_requests("a padded run", plays[1].finished, plays[0].finished)


def padded_drafts_of_each_kind_are_plain_runs(backend: Backend, scenario: Scenario) -> None:
    """Windows of layers, blocks, and rows of padding beside recurrent state change nothing, in any order of arrival."""
    for name, pool in _KINDS_OF_DRAFTS:
        padded_runs_are_plain_runs(backend, drafted_by(name, scenario, target_pool=pool))


def an_idle_batch_runs_every_forward_for_nobody(backend: Backend, scenario: Scenario) -> None:
    """It drafts, verifies and extends as often as a live batch, returns nothing, and no request has anything of it.

    V2 runs one between any two iterations; V1, which would let its requests go, when it has none.
    """
    plain, (tried, padded) = plain_play(scenario), padded_play(scenario, backend, has_own_worker=True)
    taken: set[int] = set()
    for number, _ in enumerate(side_by_side(plain, tried)):
        taken |= {request.row for request in plain.engine.scheduler.holders}
        if not scenario.is_v1 or not tried.engine.has_work:
            _run_idle_batch(scenario, tried.worker, padded)
            expected = plain.worker.state()
            kept = {name: expected[name] for name in expected if not scenario.is_v1 or name not in CARRIED}
            _require_state(number, *(_without_free_rows(state, taken) for state in (tried.worker.state(), kept)))
    _require_requests("a run with idle batches", tried.finished, plain.finished)


def an_idle_rank_runs_each_forward(backend: Backend, scenario: Scenario) -> None:
    """Every draft's forwards of an iteration run on rows of padding alone, each once, and no other does."""
    for name in V2_WORKERS:
        run = drafted_by(name, scenario)
        _, padded = padded_play(run, backend)
        reported = {ForwardKind.FROZEN_STEP: run.config.topk, ForwardKind.DRAFT_BLOCK: run.config.num_draft_tokens}
        for kind in forwards_of_an_iteration(run):
            width, before = rows_of_a_request(run, kind) or reported.get(kind, 1), Counter(padded.forwards)
            padded.run_padding(kind, ROWS_OF_AN_IDLE_RANK * width, width)
            ran = padded.forwards - before
            require(ran == Counter([kind]), f"forwards of an idle rank of {name}", ran, Counter([kind]))


def ranks_in_step_are_plain_runs(backend: Backend, scenario: Scenario) -> None:
    """Every rank outputs and counts what it would alone, runs as many forwards as any other, and loses no one."""
    reported, lost = run_threads(scenario.ranks.num_ranks, partial(_run_one, backend, scenario))
    require(not lost, "ranks that were given up", [str(one) for one in lost], "none")
    first = reported[0]
    # NOTE: threads of ranks do not count what they meet.
    for _ in range(sum(one.num_apart for one in reported)):
        reached(Condition.LAYERS)
    for rank, one in enumerate(reported):
        require(one.forwards == first.forwards, f"forwards of rank {rank}", dict(one.forwards), dict(first.forwards))
        require(one.layers == first.layers, f"layers that rank {rank} ran", one.layers, first.layers)
        alone = plain_play(scenario).engine
        for request in requests_of(scenario, rank):
            alone.submit(request)
        alone.run()
        _require_requests(f"rank {rank}", one.finished, alone.scheduler.finished)
    for number, of_ranks in enumerate(zip(*(one.seen for one in reported), strict=True)):
        rows = [row for own, _ in of_ranks for row in own]
        for rank, (_, gathered) in enumerate(of_ranks):
            require(gathered == rows, f"rows of forward {number} that rank {rank} gathered", gathered, rows)


def ranks_between_layers_wait_for_others(backend: Backend, scenario: Scenario) -> None:
    """The same where a rank begins while another one is between two layers of a draft, and catches up with it."""
    ranks_in_step_are_plain_runs(backend, scenario)


@dataclass
class _OfRank:
    """What a rank came to: its requests, forwards by kind, draft layers, and of each forward its rows and those of all.

    ``num_apart`` counts forwards of others in the layer before the one that it waited to run.
    """

    finished: list[Request]
    forwards: Counter[ForwardKind]
    layers: list[int]
    seen: list[tuple[list[int], list[int]]]
    num_apart: int = 0


def _run_one(backend: Backend, scenario: Scenario, group: LocalGroup) -> _OfRank:
    """Run one rank to the end."""
    play, padded = padded_play(scenario, backend)
    engine, ranks = play.engine, scenario.ranks
    run_layer, layers = padded.inner.draft_layer, list[int]()
    wanted: list[tuple[ForwardKind, int]] = []
    asked = requests_of(scenario, group.rank)
    came_to = _OfRank([], padded.forwards, layers, [])

    def draft_layer(layer: int, *args: Any) -> Any:
        layers.append(layer)
        return run_layer(layer, *args)

    def run_padding(kind: ForwardKind, num_tokens: int, width: int | None, layer: int = 0) -> None:
        came_to.num_apart += any(own is kind and of_own != layer for own, of_own in wanted)
        padded.run_padding(kind, num_tokens, width, layer)

    meeting = backend.host("Meeting")(group, run_padding, *ranks.shares or ())
    is_late = ranks.late is not None and group.rank == ranks.num_ranks - 1

    def agree(kind: ForwardKind, num_requests: int, num_tokens: int, width: int | None, layer: int = 0) -> Agreement:
        wanted.append((kind, layer))
        agreed: Agreement = meeting(kind, num_requests, num_tokens, width, layer)
        wanted.pop()
        return agreed

    def look(input_ids: Any) -> None:
        came_to.seen.append((input_ids.tolist(), meeting.gather(input_ids).tolist()))
        if is_late and len(came_to.seen) == ranks.late:
            submit()

    def submit() -> None:
        for request in asked:
            engine.submit(request)

    padded.agree, padded.look, padded.inner.draft_layer = agree, look, draft_layer
    if not is_late:
        submit()
    run_rank(engine, meeting)
    came_to.finished = engine.scheduler.finished
    return came_to


def _run_idle_batch(scenario: Scenario, worker: Worker, padded: Any) -> None:
    agree, before = padded.agree, Counter(padded.forwards)

    def as_others_do(
        kind: ForwardKind, num_requests: int, num_tokens: int, width: int | None, layer: int = 0
    ) -> Agreement:
        require(num_requests == num_tokens == 0, f"requests and rows of an idle {kind.name}", num_requests, 0)
        own = rows_of_a_request(scenario, kind) or width or 1
        return Agreement(ROWS_OF_AN_IDLE_RANK * own, own)

    padded.agree = as_others_do
    iteration = worker.decode([])
    padded.agree = agree
    iteration.check(0)
    expected = forwards_of_an_iteration(scenario)
    require(padded.forwards - before == expected, "forwards of an idle batch", padded.forwards - before, expected)


def _without_free_rows(state: Mapping[str, Any], taken: set[int]) -> Mapping[str, Any]:
    """Return a state without what is carried for rows that no one has had: that is for a worker to choose."""
    kept = sorted({0, *taken})
    return {name: values[kept] if name in CARRIED else values for name, values in state.items()}


def _require_state(number: int, got: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise AssertionError unless everything but row 0 and slot 0 is the same; the map of rows is, whole."""
    require_equal(f"req_to_token after step {number}", got["req_to_token"], expected["req_to_token"])
    for name, values in expected.items():
        if isinstance(values, list):
            for layer, (one, other) in enumerate(zip(got[name], values, strict=True)):
                require_equal(f"{name}[{layer}] after step {number}", one[1:], other[1:])
        else:
            require_equal(f"{name} after step {number}", got[name][1:], values[1:])


def _require_requests(what: str, got: list[Request], expected: list[Request]) -> None:
    require(ends_of(got) == ends_of(expected), f"what requests of {what} output", ends_of(got), ends_of(expected))


@composite
def _ranked_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run of at least three requests, so that ranks that decode side by side have different numbers of them."""
    num_ranks = draw(st.integers(2, 3))
    idle = draw(st.sampled_from((None, None, 0, num_ranks - 1)))
    run = draw(padded_runs())
    arrivals = [*run.arrivals, *[replace(run.arrivals[0], sampling=None)] * max(0, 3 - len(run.arrivals))]
    run = dropping(run.having(arrivals=tuple(arrivals)))
    return run.having(num_ranks=num_ranks, idle=idle, at_a_time=draw(st.sampled_from((2, 1))))


@composite
def _between_layers(draw: st.DrawFn) -> Scenario:
    """Draw two ranks with a draft of layers; the second one begins after some of the layers of an iteration."""
    scenario, num_steps = draw(scenarios()), draw(st.sampled_from((3, 2, 4)))
    lasting = [replace(one, max_new_tokens=12, eos_token=None, step=0) for one in scenario.arrivals]
    scenario = scenario.having(
        sizes=SpecConfig(1, num_steps, path_width(num_steps)), arrivals=(*lasting, *lasting[:1])[:3], max_batch=3
    )
    run = drafted_by(draw(st.sampled_from(("multi_layer_eagle_v2", "multi_layer_eagle_v1"))), scenario)
    num_forwards = 1 + num_steps
    late = draw(st.integers(1, 2)) * num_forwards + 1 + draw(st.integers(1, num_steps - 1))
    return dropping(run).having(num_ranks=2, late=late)


@composite
def _with_somebody_late(draw: st.DrawFn) -> Scenario:
    """Draw a run whose last request comes while the others decode, with a prompt that is no bucket long."""
    scenario = draw(tree_scenarios())
    late = Arrival((1, *draw(st.lists(st.integers(0, 9), min_size=2, max_size=2))), 4, step=1)
    lasting = [replace(one, max_new_tokens=12) for one in scenario.arrivals]
    return dropping(scenario.having(arrivals=(*lasting, late), max_batch=len(lasting) + 1))


_KINDS_OF_DRAFTS = (("multi_layer_eagle_v2", PoolKind.MHA), ("dflash_v2", PoolKind.MHA), ("eagle_v2", PoolKind.HYBRID))
"""Workers whose forwards have other rows than EAGLE's, and the pool in which a row is a request."""

_PADS = ("PaddedModel", "pad_inputs_to_size", "post_forward_mlp_sync_batch")

_OF_RANKS = (*_PADS, "Meeting", "plan_mlp_sync_batch")

PROPERTIES = states_of_runs(
    "padded_engine",
    (padded_runs_are_plain_runs, padded_runs, (*_PADS, "plan_mlp_sync_batch"), "P30"),
    (padded_drafts_of_each_kind_are_plain_runs, _with_somebody_late, (*_PADS, "plan_mlp_sync_batch"), "P30"),
    (an_idle_batch_runs_every_forward_for_nobody, padded_runs, _PADS, "P32"),
    (an_idle_rank_runs_each_forward, trees_or_any_scenario, _PADS, "P32"),
    (ranks_in_step_are_plain_runs, _ranked_runs, _OF_RANKS, "P57"),
    (ranks_between_layers_wait_for_others, _between_layers, _OF_RANKS, "P57", {"tags": tags_of(Condition.LAYERS)}),
    plays=(),
)
