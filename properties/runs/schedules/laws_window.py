"""Laws of whole runs of a model with a sliding window: its slots change no token, are where they should be, and go."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import ceil_to
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.schedules.laws_scheduled import DECISIONS, schedules_change_no_token
from specsim.properties.runs.schedules.scheduled_runs import overlapped_runs, scheduled_runs
from specsim.properties.runs.tags import check_window_tags
from specsim.simulation.comparing.request_pairs import free_at_rest
from specsim.simulation.engine import Engine
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.pools import most_positions, most_seen
from specsim.simulation.requests import Request

SLIDING = ("SwaAllocator", "num_behind_window", "evict_behind_window", "translate_move_slots")
"""What is asked beside what every schedule asks."""


def windows_change_no_token(backend: Backend, scenario: Scenario) -> None:
    """Whatever lost its slot before a window, every request outputs what it outputs token by token."""
    schedules_change_no_token(backend, scenario)


def what_a_window_sees_has_its_slot(backend: Backend, scenario: Scenario) -> None:
    """After every step each SWA slot has one owner, holds its text inside of a window, and none is kept before it."""
    play = Play(scenario, backend, has_own_scheduler=True)
    engine = play.engine
    for step, _ in enumerate(play.turns(checks_ledger=True)):
        state, unanswered = engine.worker.state(), engine.scheduler.unanswered
        for request in engine.scheduler.running:
            is_answered = not any(request is one for one in unanswered)
            if is_answered or not scenario.schedule.has_prefix_cache:
                _check_number(scenario, engine, request)
            if "full_to_swa" in state and is_answered:
                is_queued, when = scenario.schedule.is_overlapped, f" after step {step}"
                check_window_tags(state, request, engine.scheduler.memory, is_queued, request.fill, when)
    memory = engine.scheduler.memory
    if memory.swa is not None:
        free, everything = free_at_rest(memory)["free SWA slots"], memory.swa.swa.num_slots - memory.page_size
        require(free == everything, "free and cached SWA slots at the end", free, everything)


def a_prompt_can_be_hit_where_it_was_left(backend: Backend, scenario: Scenario) -> None:
    """While a request runs, who asks for the same text hits all that it left: the window before that has its slots."""
    play = Play(scenario, backend, has_own_scheduler=True)
    for step, _ in enumerate(play.turns()):
        memory = play.engine.scheduler.memory
        for request in play.engine.scheduler.holders:
            end = request.holding.books.num_protected
            seen = range(max(0, end - memory.window + 1), end)
            slots = [] if memory.swa is None else memory.swa.swa_slots([request.slots[position] for position in seen])
            lost = [position for position, slot in zip(seen, slots, strict=True) if not slot]
            what = f"cached positions of request {request.request_id} without SWA slots after step {step}"
            require(not lost, what, lost, f"none of the last {len(seen)} before {end}")


def _check_number(scenario: Scenario, engine: Engine, request: Request) -> None:
    """Check that a request holds no more SWA slots than its window, its chunks and its drafts need.

    The last token of a prompt has no key yet when the others are cached, and goes with the next decode: as if a window
    of two positions saw it.
    """
    memory, config = engine.scheduler.memory, engine.worker.config
    if memory.swa is None:
        return
    own = request.slots[request.holding.books.num_protected :]
    held = len(own) - memory.swa.swa_slots(own).count(0)
    longest = len(request.prompt) + request.max_new_tokens
    schedule = replace(scenario.schedule, has_prefix_cache=False)
    window = max(memory.window, 2) if scenario.schedule.has_prefix_cache else memory.window
    demand = most_positions(config, request, memory.page_size)
    most = most_seen(config, demand, longest, window, memory.page_size, schedule)
    most = ceil_to(most, memory.page_size)
    require(held <= most, f"SWA slots of request {request.request_id}", held, f"at most {most}")


def window_runs() -> SearchStrategy[Scenario]:
    """Draw runs of every schedule whose model has a window, most of them far smaller than the texts."""
    return _with_windows(scheduled_runs())


def overlapped_window_runs() -> SearchStrategy[Scenario]:
    """Draw such runs that overlap, in which rows and slots change owners while work is queued."""
    return _with_windows(overlapped_runs())


def cached_window_runs() -> SearchStrategy[Scenario]:
    """Draw runs with a prefix cache, most of which overlap, so that prompts wait for it while a decode is launched."""
    runs = st.one_of(overlapped_window_runs(), overlapped_window_runs(), window_runs())
    return runs.map(lambda scenario: scenario.having(has_prefix_cache=True))


def _with_windows(runs: SearchStrategy[Scenario]) -> SearchStrategy[Scenario]:
    drawn = st.one_of(runs, runs.map(_on_trees))
    windows = st.tuples(drawn, st.sampled_from((2, 3, 1, 4, 6)), st.sampled_from((0, 0, 2, 9)))
    return windows.map(
        lambda drawn: drawn[0].having(target_pool=PoolKind.SWA, window=drawn[1], num_spare_swa_slots=drawn[2])
    )


def _on_trees(scenario: Scenario) -> Scenario:
    """Return the same run on V2 with trees of which more than the first path is accepted, so that slots move."""
    return scenario.having(agreement=0.9, num_right=None, sizes=SpecConfig(3, 3, 7), is_v1=False)


_CALLED = (*DECISIONS, *SLIDING)

PROPERTIES = states_of_runs(
    "swa_engine",
    (windows_change_no_token, overlapped_window_runs, _CALLED, "P45"),
    (what_a_window_sees_has_its_slot, window_runs, _CALLED, "P45"),
    (a_prompt_can_be_hit_where_it_was_left, cached_window_runs, _CALLED, "P45"),
)
