"""Sampled verify in whole runs: an engine that compares drafts with the target's draws outputs what it draws alone."""

from hypothesis.strategies import SearchStrategy

from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.properties.laws.sampled_engine import SampledRun, decode, loops_on, seeded_runs
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.drawn_runs import DRAW, WALK, Drawing, drawn_alone
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.sampled import LARGEST_DYADIC_VOCABULARY


def drafts_change_no_draw(backend: Backend, run: SampledRun) -> None:
    """In any batch, on either loop, with any draft, every request outputs the tokens that its target draws alone."""
    operations = Completed(backend, load("specsim.reference"))
    done = decode(loops_on(Drawing(operations)), Drawing(operations), run, len(run.prompts))
    for number, request in done.items():
        prompt, sampling = run.prompts[number], run.sampling[number]
        if sampling is None:
            expected = list(greedy_decode(run.model, prompt, run.num_tokens))
        else:
            expected = drawn_alone(operations, run.model, prompt, sampling, run.num_tokens)
        require(request.output == expected, f"output of request {number}, {run.config}", request.output, expected)


def runs_of_few_tokens() -> SearchStrategy[SampledRun]:
    """Return a strategy of runs over a vocabulary whose exact shares are known."""
    return seeded_runs(most_tokens=LARGEST_DYADIC_VOCABULARY)


PROPERTIES = (state_of_runs("drawn_engine", drafts_change_no_draw, runs_of_few_tokens, (DRAW, WALK), "P10", plays=()),)
