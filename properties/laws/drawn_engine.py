"""Sampled verify in whole runs: an engine that compares drafts with the target's draws outputs what it draws alone."""

from dataclasses import replace

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.host.acceptance import Acceptance
from specsim.properties.composite import composite
from specsim.properties.laws.sampled_engine import TREES, SampledRun, decode, seeded_runs, workers_of
from specsim.properties.laws.support.checks import require, state_of_runs
from specsim.properties.laws.support.drawn_runs import DRAW, WALK, drawn_alone
from specsim.properties.laws.support.histories import parts_of
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.sampled import LARGEST_DYADIC_VOCABULARY

PAGES = (1, 1, 4, 3)
CONFIGS = (*TREES[1:3], SpecConfig(2, 2, 5), SpecConfig(3, 2, 8), SpecConfig(4, 1, 5), SpecConfig(4, 2, 12))
"""Drafts among which wide trees are many: their nodes stand elsewhere than their numbers say."""


def drafts_change_no_draw(backend: Backend, run: SampledRun) -> None:
    """In any batch, on any worker, page and schedule, with any draft, each request outputs what its target draws alone.

    Its own worker runs where that has a parameter for the rule of acceptance, and the reference's loop elsewhere.
    """
    operations = Completed(backend, load("specsim.reference"))
    done = decode(workers_of(backend), parts_of(backend), run, len(run.prompts))
    for number, request in done.items():
        prompt, sampling = run.prompts[number], run.sampling[number]
        if sampling is None:
            expected = list(greedy_decode(run.model, prompt, run.num_tokens))
        else:
            expected = drawn_alone(operations, run.model, prompt, sampling, run.num_tokens)
        form = f"{run.config}, pages of {run.page_size}, {'V1' if run.is_v1 else 'V2'}"
        require(request.output == expected, f"output of request {number}, {form}", request.output, expected)


@composite
def drawn_runs(draw: st.DrawFn) -> SampledRun:
    """Draw a run over few tokens, whose exact shares are known, each request twice, half of those on V2 overlapped."""
    run = draw(seeded_runs(most_tokens=LARGEST_DYADIC_VOCABULARY))
    again = [None if one is None else replace(one, seed=one.seed ^ 1) for one in run.sampling]
    return replace(
        run,
        config=draw(st.sampled_from(CONFIGS)),
        prompts=run.prompts * 2,
        sampling=(*run.sampling, *again),
        num_tokens=draw(st.integers(8, 14)),
        acceptance=Acceptance.TARGET_DRAW,
        page_size=draw(st.sampled_from(PAGES)),
        is_overlapped=not run.is_v1 and draw(st.booleans()),
    )


PROPERTIES = (state_of_runs("drawn_engine", drafts_change_no_draw, drawn_runs, (DRAW, WALK), "P10", plays=()),)
