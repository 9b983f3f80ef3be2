"""Laws of whole runs with processors and grammars: the output is that of plain decoding under the same ones."""

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require, state_of_runs
from specsim.properties.runs.constrained_runs import constrained_runs
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario

_READ = ("traverse_tree", "truncate_at_stop")
_WALKED = ("apply_logit_processors", "traverse_tree", "truncate_at_stop", "verify_tree_greedy", "waits_for_result")


def constrained_output_is_that_of_plain_decoding(backend: Backend, scenario: Scenario) -> None:
    """Each request outputs what its model chooses token by token from logits that are processed and masked alike."""
    Play(scenario, backend).run(checks_ledger=True).require_outputs()


def matchers_read_the_output_and_nothing_else(backend: Backend, scenario: Scenario) -> None:
    """After every step the matcher of a request that goes on stands where its output leads."""
    play = Play(scenario, backend)
    for _ in play.turns():
        for request in play.engine.scheduler.running:
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
