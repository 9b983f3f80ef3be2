"""Laws of whole runs whose number of steps adapts: nothing is lost, and every batch drafts what was decided."""

from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.host.adaptive import adapt_num_steps, route_batch_size
from specsim.properties.laws.checks import require, require_present, state_of_runs
from specsim.properties.runs.constrained_runs import adaptive_runs
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario

_CALLED = ("adapt_num_steps", "build_tree", "route_batch_size", "target_verify_metadata", "verify_tree_greedy")


def adapting_steps_change_no_output(backend: Backend, scenario: Scenario) -> None:
    """Whatever the controller decides, the output is that of autoregressive decoding, and slots have one owner."""
    Play(scenario, backend).run(checks_ledger=True).require_outputs()


def batches_draft_as_many_steps_as_was_decided(backend: Backend, scenario: Scenario) -> None:
    """Trees are as deep as the controller's rules say after the drafts that were accepted so far."""
    play, adapting = Play(scenario, backend), require_present("adapting", scenario.drafting.adapting)
    slots = adapting.config.slots
    states = {slot.batch_size: adapting.controller(backend).states[slot.batch_size] for slot in slots}
    for iteration in play.iterations():
        drafts = iteration.num_accepted_drafts.tolist()
        key = route_batch_size(len(drafts), adapting.graph_sizes, [slot.batch_size for slot in slots])
        got, expected = play.last_verify_input().num_draft_tokens, path_width(states[key].num_steps)
        require(got == expected, f"num_draft_tokens of iteration {play.engine.num_iterations}", got, expected)
        (slot,) = (slot for slot in slots if slot.batch_size == key)
        states[key] = adapt_num_steps(states[key], drafts, slot, adapting.config)


PROPERTIES = tuple(
    state_of_runs("adaptive_engine", law, adaptive_runs, _CALLED, number)
    for law, number in (
        (adapting_steps_change_no_output, "P01"),
        (batches_draft_as_many_steps_as_was_decided, "P60"),
    )
)
