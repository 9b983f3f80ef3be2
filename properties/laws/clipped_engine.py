"""Laws of whole runs whose drafts stop at the end of the context, whatever else runs beside."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import count_drafts, path_width
from specsim.properties.composite import composite
from specsim.properties.laws.scheduled_engine import DECISIONS
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.scheduled_runs import ScheduledRun, finished, play, scheduled_runs
from specsim.simulation.models.ground_truth import greedy_decode

POOLS = ("target_kv", "draft_kv")


def outputs_fill_the_context(backend: Backend, run: ScheduledRun) -> None:
    """Every request outputs what plain decoding does, up to its end or that of the context, exactly."""
    engine = run.engine(backend)
    for _ in play(run, engine):
        engine.scheduler.check_ledger()
    for request in finished(engine):
        room = _limit_of(run) - len(request.prompt)
        most = min(request.max_new_tokens, room)
        expected = greedy_decode(run.scenario.model, request.prompt, most, request.eos_token)
        require(request.output == expected, f"output of request {request.request_id}", request.output, expected)


def nothing_is_written_behind_the_context(backend: Backend, run: ScheduledRun) -> None:
    """No slot of target or draft ever holds a position that the context has not."""
    engine, limit = run.engine(backend), _limit_of(run)
    for step in play(run, engine):
        state = engine.worker.state()
        for name in POOLS:
            last = max(int(np.asarray(entries)[:, 0].max()) for entries in state[name])
            require(last < limit, f"last position in {name} after step {step}", last, f"below {limit}")


def chains_are_as_deep_as_the_context_allows(backend: Backend, run: ScheduledRun) -> None:
    """An iteration drafts as many steps as the request that is nearest to the end has room for, and no fewer."""
    engine = run.engine(backend)
    for step in play(run, engine):
        if not engine.num_iterations:
            continue
        verify_input = vars(engine.worker.phases()[1])
        room = count_drafts(_limit_of(run) - verify_input["seq_lens"] - 1)
        num_steps = min(run.scenario.config.num_steps, max(0, int(room.min())))
        got, expected = verify_input["num_draft_tokens"], path_width(num_steps)
        require(got == expected, f"num_draft_tokens after step {step}", got, expected)


def _limit_of(run: ScheduledRun) -> int:
    return require_present("context_limit", run.scenario.context_limit)


@composite
def clipped_runs(draw: st.DrawFn) -> ScheduledRun:
    """Draw chains of requests most of which end with the context, some of them while others have room."""
    run, num_steps = draw(scheduled_runs()), draw(st.sampled_from((3, 2, 4, 1)))
    longest = max(len(arrival.prompt) for arrival in run.scenario.arrivals)
    scenario = replace(
        run.scenario,
        config=SpecConfig(1, num_steps, path_width(num_steps)),
        context_limit=longest + draw(st.integers(1, 12)),
        model=replace(run.scenario.model, agreement=draw(st.sampled_from((1.0, 0.8, 0.5)))),
    )
    return replace(run, scenario=scenario, schedule=replace(run.schedule, clips_drafts=True), aborts=())


def runs_in_turn() -> SearchStrategy[ScheduledRun]:
    """Draw such runs whose engine knows of every request how long it is."""
    return clipped_runs().map(lambda run: replace(run, schedule=replace(run.schedule, is_overlapped=False)))


PROPERTIES = tuple(
    state_of_runs("clipped_engine", law, strategy, (*DECISIONS, "clip_drafts"), "P54")
    for law, strategy in (
        (outputs_fill_the_context, clipped_runs),
        (nothing_is_written_behind_the_context, clipped_runs),
        (chains_are_as_deep_as_the_context_allows, runs_in_turn),
    )
)
