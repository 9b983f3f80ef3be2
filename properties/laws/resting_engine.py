"""Laws of whole runs that draft nothing for a while: what is output and kept is that of runs that never rested."""

from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.laws.engine import SPINE
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.histories import iterations_of
from specsim.properties.laws.support.resting_runs import RestingRun, resting_runs
from specsim.properties.laws.worker import check_goes_on
from specsim.properties.property import OF_ENGINES
from specsim.simulation.models.ground_truth import greedy_decode


def rests_draft_nothing_and_change_no_output(backend: Backend, run: RestingRun) -> None:
    """An iteration sends a root and a node a step to the target, and accepts as many drafts at most.

    What it drafts is its own affair, not that of the iteration before or of the next one. Outputs are those of
    autoregressive decoding, and slots have one owner.
    """
    engine = run.engine(backend)
    for number, iteration in enumerate(iterations_of(engine)):
        engine.scheduler.check_ledger()
        num_steps, drafts = run.num_steps(number), iteration.num_accepted_drafts.tolist()
        num_nodes = len(vars(engine.worker.phases()[1])["draft_token"])
        expected = len(drafts) * path_width(num_steps)
        require(num_nodes == expected, f"nodes of iteration {number}", num_nodes, expected)
        is_possible = all(0 <= count <= num_steps for count in drafts)
        require(is_possible, f"num_accepted_drafts of iteration {number}", drafts, f"0 to {num_steps}")
    for request in engine.scheduler.finished:
        output = greedy_decode(run.scenario.model, request.prompt, request.max_new_tokens)
        require(request.output == output, f"output of request {request.request_id}", request.output, output)


def drafts_go_on_as_if_there_had_been_no_rest(backend: Backend, run: RestingRun) -> None:
    """Both caches, and what starts the next draft, are those of a fresh prefill, at rest and after it."""
    engine = run.engine(backend)
    for _ in iterations_of(engine):
        check_goes_on(engine, run.scenario)


PROPERTIES = tuple(
    state_of_runs("resting_engine", law, resting_runs, SPINE, number, OF_ENGINES)
    for law, number in (
        (rests_draft_nothing_and_change_no_output, "P01"),
        (drafts_go_on_as_if_there_had_been_no_rest, "P49"),
    )
)
