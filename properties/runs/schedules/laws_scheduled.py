"""Laws of whole runs whatever the schedule: it changes no token and loses no slot; contexts end drafts."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import count_drafts, path_width
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.runs.histories import tagged_pools
from specsim.properties.runs.play import Play, require_same
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.schedules.scheduled_runs import aborted_runs, overlapped_runs, scheduled_runs
from specsim.properties.runs.workers.laws_state import check_texts
from specsim.properties.runs.workers.laws_tokens import require_all_free

DECISIONS = (
    *("chunk_length", "is_late", "stream_edges", "truncate_at_stop"),
    *("SlotAllocator", "PageAllocator", "RowAllocator", "RadixCache"),
    *("admit_request", "allocate_chunk", "make_room", "new_tokens_required_next_decode", "owned_length"),
    *("prepare_for_decode", "publish_prefix", "release_finished", "release_retracted"),
)
"""What the scheduler and the results of a run ask, and what its memory is built from."""


def schedules_change_no_token(backend: Backend, scenario: Scenario) -> None:
    """Every request outputs what it outputs token by token; an aborted one as much of it as it came to."""
    Play(scenario, backend, has_own_scheduler=True).run().require_outputs()


def schedules_lose_no_slot(backend: Backend, scenario: Scenario) -> None:
    """After every step each slot and row has one owner, and at the end none has."""
    play = Play(scenario, backend, has_own_scheduler=True)
    scheduler = play.engine.scheduler
    for _ in play.turns(checks_ledger=True):
        num_holders = len(scheduler.holders)
        require(num_holders <= scheduler.max_batch, "requests with a row", num_holders, scheduler.max_batch)
    require_all_free(play.engine)
    num_free = scheduler.memory.rows.num_free
    require(num_free == scheduler.sizes.num_rows - 1, "free rows at the end", num_free, "all")


def committed_kv_outlives_every_schedule(backend: Backend, scenario: Scenario) -> None:
    """Whatever is queued, what is committed and resolved holds the tags of its own tokens, in target and draft."""
    play = Play(scenario, backend, has_own_scheduler=True)
    for _ in play.turns():
        state = play.worker.state()
        unanswered = play.engine.scheduler.unanswered
        for request in play.engine.scheduler.running:
            if not any(request is one for one in unanswered):
                check_texts(tagged_pools(backend), state, scenario.model, request)


def an_abort_ends_at_the_next_result(backend: Backend, scenario: Scenario) -> None:
    """A running request that is aborted ends with its next result: V1 outputs one token of it, V2 all of them.

    Whatever it owns goes back.
    """
    play = Play(scenario, backend, has_own_scheduler=True)
    engine, flagged = play.engine, dict[int, int]()
    for step, _ in enumerate(play.turns(checks_ledger=True)):
        for request in engine.scheduler.finished:
            if request.request_id in flagged and scenario.is_v1:
                got, expected = len(request.output), flagged[request.request_id] + 1
                require(got <= expected, f"output of aborted request {request.request_id}", got, f"at most {expected}")
        waiting = engine.scheduler.unanswered
        late = [one for one in engine.scheduler.running if one.request_id in flagged and one not in waiting]
        require(not late, f"aborted requests that run after step {step}", [one.request_id for one in late], "none")
        flagged = {
            request.request_id: len(request.output)
            for request in engine.scheduler.running
            if request.request_id in {number for when, number in scenario.course.aborts if when == step + 1}
        }


def overlap_changes_no_counter(backend: Backend, scenario: Scenario) -> None:
    """Without retractions a request counts, outputs and ends the same whether its results come at once or late."""
    calm = scenario.having(retractions=(), promised=Fraction(1))
    plays = [
        Play(calm.having(is_overlapped=is_overlapped), backend, has_own_scheduler=True).run()
        for is_overlapped in (scenario.schedule.is_overlapped, False)
    ]
    for late, early in zip(*(one.finished for one in plays), strict=True):
        require_same(late, early, "output", "finish", "counters")


POOLS = ("target_kv", "draft_kv")


def outputs_fill_the_context(backend: Backend, scenario: Scenario) -> None:
    """Every request outputs what plain decoding does, up to its end or that of the context, exactly."""
    Play(scenario, backend, has_own_scheduler=True).run(checks_ledger=True).require_outputs()


def nothing_is_written_behind_the_context(backend: Backend, scenario: Scenario) -> None:
    """No slot of target or draft ever holds a position that the context has not."""
    play, limit = Play(scenario, backend, has_own_scheduler=True), _limit_of(scenario)
    for step, _ in enumerate(play.turns()):
        state = play.worker.state()
        for name in POOLS:
            last = max(int(np.asarray(entries)[:, 0].max()) for entries in state[name])
            require(last < limit, f"last position in {name} after step {step}", last, f"below {limit}")


def chains_are_as_deep_as_the_context_allows(backend: Backend, scenario: Scenario) -> None:
    """An iteration drafts as many steps as the request that is nearest to the end has room for, and no fewer."""
    play = Play(scenario, backend, has_own_scheduler=True)
    for step, _ in enumerate(play.turns()):
        if not play.engine.num_iterations:
            continue
        verify_input = play.last_verify_input()
        room = count_drafts(_limit_of(scenario) - verify_input.seq_lens - 1)
        num_steps = min(scenario.config.num_steps, max(0, int(room.min())))
        got, expected = verify_input.num_draft_tokens, path_width(num_steps)
        require(got == expected, f"num_draft_tokens after step {step}", got, expected)


def _limit_of(scenario: Scenario) -> int:
    return require_present("context_limit", scenario.arrivals[0].context_limit)


@composite
def clipped_runs(draw: st.DrawFn) -> Scenario:
    """Draw chains of requests most of which end with the context, some of them while others have room."""
    scenario, num_steps = draw(scheduled_runs()), draw(st.sampled_from((3, 2, 4, 1)))
    longest = max(len(arrival.prompt) for arrival in scenario.arrivals)
    return scenario.asking(context_limit=longest + draw(st.integers(1, 12))).having(
        sizes=SpecConfig(1, num_steps, path_width(num_steps)),
        agreement=draw(st.sampled_from((1.0, 0.8, 0.5))),
        clips_drafts=True,
        aborts=(),
    )


def runs_in_turn() -> SearchStrategy[Scenario]:
    """Draw such runs whose engine knows of every request how long it is."""
    return clipped_runs().map(lambda scenario: scenario.having(is_overlapped=False))


_CLIPPING = (*DECISIONS, "clip_drafts")

PROPERTIES = (
    *states_of_runs(
        "scheduled_engine",
        (schedules_change_no_token, scheduled_runs, DECISIONS, "P55"),
        (schedules_lose_no_slot, scheduled_runs, DECISIONS, "P38"),
        (committed_kv_outlives_every_schedule, overlapped_runs, DECISIONS, "P56"),
        (overlap_changes_no_counter, overlapped_runs, DECISIONS, "P55"),
        (an_abort_ends_at_the_next_result, aborted_runs, DECISIONS, "P55"),
        plays=OF_ENGINES,
    ),
    *states_of_runs(
        "clipped_engine",
        (outputs_fill_the_context, clipped_runs, _CLIPPING, "P54"),
        (nothing_is_written_behind_the_context, clipped_runs, _CLIPPING, "P54"),
        (chains_are_as_deep_as_the_context_allows, runs_in_turn, _CLIPPING, "P54"),
    ),
)
