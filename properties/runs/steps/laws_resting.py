"""Laws of whole runs that draft nothing for a while: what is output and kept is that of runs that never rested."""

from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.laws.checks import require, require_present, state_of_runs
from specsim.properties.property import OF_ENGINES
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.steps.resting_runs import resting_runs
from specsim.properties.runs.workers.laws_state import check_goes_on
from specsim.properties.runs.workers.laws_tokens import SPINE


def rests_draft_nothing_and_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """An iteration sends a root and a node a step to the target, and accepts as many drafts at most.

    What it drafts is its own affair, not that of the iteration before or of the next one. Outputs are those of
    autoregressive decoding, and slots have one owner.
    """
    play, adapting = Play(scenario, backend, has_own_scheduler=True), scenario.drafting.adapting
    for number, iteration in enumerate(play.iterations()):
        play.engine.scheduler.check_ledger()
        num_steps = require_present("adapting", adapting).num_steps(number)
        num_nodes, drafts = len(play.last_verify_input().draft_token), iteration.num_accepted_drafts.tolist()
        expected = len(drafts) * path_width(num_steps)
        require(num_nodes == expected, f"nodes of iteration {number}", num_nodes, expected)
        is_possible = all(0 <= count <= num_steps for count in drafts)
        require(is_possible, f"num_accepted_drafts of iteration {number}", drafts, f"0 to {num_steps}")
    play.require_outputs()


def drafts_go_on_as_if_there_had_been_no_rest(backend: Backend, scenario: Scenario) -> None:
    """Both caches, and what starts the next draft, are those of a fresh prefill, at rest and after it."""
    play = Play(scenario, backend, has_own_scheduler=True)
    for _ in play.iterations():
        check_goes_on(play.engine, scenario)


PROPERTIES = tuple(
    state_of_runs("resting_engine", law, resting_runs, SPINE, number, OF_ENGINES)
    for law, number in (
        (rests_draft_nothing_and_change_no_output, "P01"),
        (drafts_go_on_as_if_there_had_been_no_rest, "P49"),
    )
)
