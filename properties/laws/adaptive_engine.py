"""Laws of whole runs whose number of steps adapts: nothing is lost, and every batch drafts what was decided."""

from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.host.adaptive import adapt_num_steps, route_batch_size
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.constrained_runs import AdaptiveRun, adaptive_runs
from specsim.simulation.models.ground_truth import greedy_decode

_CALLED = ("adapt_num_steps", "build_tree", "route_batch_size", "target_verify_metadata", "verify_tree_greedy")


def adapting_steps_change_no_output(backend: Backend, run: AdaptiveRun) -> None:
    """Whatever the controller decides, the output is that of autoregressive decoding, and slots have one owner."""
    engine = run.engine(backend, run.controller(backend))
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
    for request in engine.scheduler.finished:
        expected = greedy_decode(run.scenario.model, request.prompt, request.max_new_tokens)
        require(request.output == expected, f"output of request {request.request_id}", request.output, expected)


def batches_draft_as_many_steps_as_was_decided(backend: Backend, run: AdaptiveRun) -> None:
    """Trees are as deep as the controller's rules say after the drafts that were accepted so far."""
    engine = run.engine(backend, run.controller(backend))
    slots = run.adaptive.slots
    states = {slot.batch_size: run.controller(backend).states[slot.batch_size] for slot in slots}
    while engine.has_work:
        iteration = engine.step()
        if iteration is None:
            continue
        drafts = iteration.num_accepted_drafts.tolist()
        key = route_batch_size(len(drafts), run.graph_sizes, [slot.batch_size for slot in slots])
        got, expected = vars(engine.worker.phases()[1])["num_draft_tokens"], path_width(states[key].num_steps)
        require(got == expected, f"num_draft_tokens of iteration {engine.num_iterations}", got, expected)
        (slot,) = (slot for slot in slots if slot.batch_size == key)
        states[key] = adapt_num_steps(states[key], drafts, slot, run.adaptive)


PROPERTIES = tuple(
    state_of_runs("adaptive_engine", law, adaptive_runs, _CALLED, number)
    for law, number in (
        (adapting_steps_change_no_output, "P01"),
        (batches_draft_as_many_steps_as_was_decided, "P60"),
    )
)
