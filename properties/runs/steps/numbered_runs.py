"""Whole runs in which every request drafts a number of steps of its own, anew in each of its iterations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2
from specsim.properties.composite import composite
from specsim.properties.reach.counting import reached
from specsim.properties.runs.drafted import ALL_WORKERS, V2_WORKERS, drafted_by
from specsim.properties.runs.histories import VOCABULARY, automata, models
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.simulation.events import Tag
from specsim.simulation.requests import Request

MOST = 1 << 16
"""Stands in a pattern for as many steps as there are."""

PATTERNS = ((0, MOST, 1), (0, 0, MOST, 1, MOST), (1, 0, MOST, 2), (MOST, 0), (0, 1), (1, 2, 0, MOST))
"""Numbers that follow each other; neighbours are at different places, so that batches mix them."""

TAGS = Tag.MIXED, Tag.RESTING, Tag.NARROWER, Tag.WIDER
"""What every run reaches whose requests draft numbers of their own."""


@dataclass(frozen=True)
class PatternNumbers:
    """Goes through a pattern again and again; each request begins one place further than the one before it."""

    pattern: tuple[int, ...]

    def __call__(self, requests: Sequence[Request], most: int) -> list[int]:
        """Return the numbers."""
        places = [request.request_id + request.counters.num_verifies for request in requests]
        return [min(most, self.pattern[place % len(self.pattern)]) for place in places]


def count_numbers(tag: Tag) -> None:
    """Count what a run reaches by the numbers of its requests."""
    if tag in TAGS:
        reached(tag)


@composite
def crowds(
    draw: st.DrawFn, configs: Sequence[SpecConfig], agreement: float, fewest_tokens: int, most_tokens: int
) -> Scenario:
    """Draw two or three requests that decode together for a while; most of their drafts are right."""
    config, model = draw(st.sampled_from(configs)), draw(models())
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=4), min_size=2, max_size=3))
    num_tokens = st.integers(fewest_tokens, most_tokens)
    return scenario_of(
        config,
        draw(st.sampled_from((replace(model, agreement=agreement, num_right=None), model))),
        [Arrival((number, *prompt), draw(num_tokens)) for number, prompt in enumerate(prompts)],
        max_batch=draw(st.sampled_from((3, 2))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        page_size=draw(st.sampled_from((1, 1, 4))),
    )


@composite
def numbered_runs(draw: st.DrawFn, names: tuple[str, ...] = ALL_WORKERS) -> Scenario:
    """Draw a run of two or three requests that decode together and mix their numbers; some of V2 overlap."""
    name = draw(st.sampled_from(names))
    is_overlapped = name in V2_WORKERS and draw(st.sampled_from((False, True)))
    configs = SpecConfig(1, 3, 4), SpecConfig(2, 2, 5), SpecConfig(1, 2, 3), SpecConfig(2, 3, 6)
    scenario = draw(crowds(configs, 1.0, 12, 16))
    numbers, seed = PatternNumbers(draw(st.sampled_from(PATTERNS))), scenario.room.shuffle_seed
    return drafted_by(name, scenario, num_drafts=numbers, is_overlapped=is_overlapped, stream_seed=seed)


def numbered_runs_of_eagle() -> SearchStrategy[Scenario]:
    """Return a strategy of runs of EAGLE in turn, so that every iteration is seen right after it."""
    return numbered_runs((EAGLE_V2, EAGLE_V1)).map(lambda run: run.having(is_overlapped=False))


def narrow_trees() -> SearchStrategy[Scenario]:
    """Return a strategy of runs of EAGLE whose trees have few nodes, seldom one on the last level."""
    return crowds((SpecConfig(2, 3, 4), SpecConfig(3, 3, 5), SpecConfig(2, 4, 5)), 1.0, 8, 12)


@composite
def numbered_grammars(draw: st.DrawFn) -> Scenario:
    """Draw such a run whose requests have grammars; most batches are narrower than their chains could be."""
    run = draw(numbered_runs_of_eagle())
    pattern = draw(st.sampled_from(((0, 1), (1, 0, 1, MOST))))
    sizes = draw(st.sampled_from((SpecConfig(1, 3, 4), SpecConfig(1, 2, 3))))
    arrivals = tuple(replace(one, grammar=draw(automata())) for one in run.arrivals)
    return run.having(sizes=sizes, num_drafts=PatternNumbers(pattern), arrivals=arrivals)
