"""Sampled verify in whole runs: an engine that compares drafts with the target's draws outputs what it draws alone."""

from dataclasses import replace

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.host.acceptance import Acceptance
from specsim.properties.composite import composite
from specsim.properties.laws.checks import state_of_runs
from specsim.properties.runs.play import Play
from specsim.properties.runs.sampling.drawn_runs import DRAW, WALK, require_drawn_alone
from specsim.properties.runs.sampling.laws_sampled import TREES, seeded_runs
from specsim.properties.runs.scenario import Scenario
from specsim.simulation.sampled import LARGEST_DYADIC_VOCABULARY

PAGES = (1, 1, 4, 3)
CONFIGS = (*TREES[1:3], SpecConfig(2, 2, 5), SpecConfig(3, 2, 8), SpecConfig(4, 1, 5), SpecConfig(4, 2, 12))
"""Drafts among which wide trees are many: their nodes stand elsewhere than their numbers say."""


def drafts_change_no_draw(backend: Backend, scenario: Scenario) -> None:
    """In any batch, on any worker, page and schedule, with any draft, each request outputs what its target draws alone.

    Its own worker runs where that has a parameter for the rule of acceptance, and the reference's loop elsewhere.
    """
    form = f"{scenario.config}, pages of {scenario.room.page_size}, {'V1' if scenario.is_v1 else 'V2'}"
    for request in Play(scenario, backend).run().requests:
        require_drawn_alone(backend, scenario.model, request, form)


@composite
def drawn_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run over few tokens, whose exact shares are known, each request twice, half of those on V2 overlapped."""
    scenario = draw(seeded_runs(most_tokens=LARGEST_DYADIC_VOCABULARY))
    again = [
        one if one.sampling is None else replace(one, sampling=replace(one.sampling, seed=one.sampling.seed ^ 1))
        for one in scenario.arrivals
    ]
    config, num_tokens = draw(st.sampled_from(CONFIGS)), draw(st.integers(8, 14))
    return scenario.having(
        sizes=config,
        arrivals=(*scenario.arrivals, *again),
        max_batch=2 * len(again),
        acceptance=Acceptance.TARGET_DRAW,
        page_size=draw(st.sampled_from(PAGES)),
        is_overlapped=not scenario.is_v1 and draw(st.booleans()),
    ).asking(max_new_tokens=num_tokens)


PROPERTIES = (state_of_runs("drawn_engine", drafts_change_no_draw, drawn_runs, (DRAW, WALK), "P10", plays=()),)
