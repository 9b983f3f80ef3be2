"""Laws of whole runs whose drafts stop at the end of the context, whatever else runs beside."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.assertion import require_present
from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import count_drafts, path_width
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, state_of_runs
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.schedules.laws_scheduled import DECISIONS
from specsim.properties.runs.schedules.scheduled_runs import scheduled_runs

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


PROPERTIES = tuple(
    state_of_runs("clipped_engine", law, strategy, (*DECISIONS, "clip_drafts"), "P54")
    for law, strategy in (
        (outputs_fill_the_context, clipped_runs),
        (nothing_is_written_behind_the_context, clipped_runs),
        (chains_are_as_deep_as_the_context_allows, runs_in_turn),
    )
)
