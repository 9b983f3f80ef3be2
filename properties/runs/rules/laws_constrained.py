"""Laws of whole runs with processors and grammars: the output is that of plain decoding under the same ones."""

from dataclasses import replace

from hypothesis import strategies as st

from specsim.conformance.backend import Backend
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, states_of_runs
from specsim.properties.runs.choices import Shifted
from specsim.properties.runs.histories import automata, trees_or_any_scenario
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.schedule import Schedule


@composite
def constrained_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run in which most requests have a grammar and some a processor."""
    scenario = draw(trees_or_any_scenario())
    grammars = [draw(st.one_of(automata(), automata(), st.none())) for _ in scenario.arrivals]
    processors = [draw(st.one_of(st.none(), st.builds(Shifted, st.integers(1, 5)))) for _ in scenario.arrivals]
    is_v1, is_overlapped = draw(st.sampled_from(((True, False), (False, False), (False, True), (False, True))))
    return scenario.having(
        arrivals=tuple(
            replace(one, step=0, grammar=grammar, processor=processor)
            for one, grammar, processor in zip(scenario.arrivals, grammars, processors, strict=True)
        ),
        is_v1=is_v1,
        schedule=Schedule(is_overlapped, stream_seed=draw(st.integers(0, 2**16))),
    )


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


PROPERTIES = states_of_runs(
    "constrained_engine",
    (constrained_output_is_that_of_plain_decoding, constrained_runs, _WALKED, "P01"),
    (matchers_read_the_output_and_nothing_else, constrained_runs, _READ, "P53"),
)
