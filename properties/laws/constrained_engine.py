"""Laws of whole runs with processors and grammars: the output is that of plain decoding under the same ones."""

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.constrained_runs import ConstrainedRun, constrained_runs
from specsim.properties.laws.support.histories import require_decoded_alone

_READ = ("traverse_tree", "truncate_at_stop")
_WALKED = ("apply_logit_processors", "traverse_tree", "truncate_at_stop", "verify_tree_greedy", "waits_for_result")


def constrained_output_is_that_of_plain_decoding(backend: Backend, run: ConstrainedRun) -> None:
    """Each request outputs what its model chooses token by token from logits that are processed and masked alike."""
    engine = run.engine(backend)
    while engine.has_work:
        engine.step()
        engine.scheduler.check_ledger()
    for request in engine.scheduler.finished:
        require_decoded_alone(run.scenario.model, request)


def matchers_read_the_output_and_nothing_else(backend: Backend, run: ConstrainedRun) -> None:
    """After every step the matcher of a request that goes on stands where its output leads."""
    engine = run.engine(backend)
    while engine.has_work:
        engine.step()
        for request in engine.scheduler.running:
            if request.grammar is None:
                continue
            fresh = request.grammar()
            for token in request.output:
                fresh.accept(token)
            got, expected = vars(request.matcher)["history"], vars(fresh)["history"]
            require(got == expected, f"states of the matcher of request {request.request_id}", got, expected)


PROPERTIES = (
    state_of_runs("constrained_engine", constrained_output_is_that_of_plain_decoding, constrained_runs, _WALKED, "P01"),
    state_of_runs("constrained_engine", matchers_read_the_output_and_nothing_else, constrained_runs, _READ, "P53"),
)
