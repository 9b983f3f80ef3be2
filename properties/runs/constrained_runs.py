"""Whole runs whose requests bring processors and grammars of their own, and runs whose steps adapt."""

from dataclasses import replace
from functools import partial

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot
from specsim.properties.composite import composite
from specsim.properties.runs.choices import Automaton, Shifted
from specsim.properties.runs.histories import VOCABULARY, trees_or_any_scenario
from specsim.properties.runs.scenario import Adapting, Arrival, Scenario, scenario_of
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.schedule import Schedule


def automata() -> SearchStrategy[Automaton]:
    """Draw a grammar that forbids some tokens and may end."""
    return st.builds(
        partial(Automaton, VOCABULARY),
        num_states=st.integers(2, 4),
        density=st.sampled_from((0.5, 0.75, 0.75)),
        one_in=st.sampled_from((8, 1000)),
        seed=st.integers(0, 2**32 - 1),
    )


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


@composite
def adaptive_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run long enough for a controller that decides early to change its mind, up and down."""
    candidates = draw(st.sampled_from(((1, 2, 4), (1, 3), (2, 4), (1, 2, 3, 4), (0, 1, 3), (0, 2))))
    fewer = candidates[:-1]
    every, *larger = [AdaptiveSlot(1, candidates), AdaptiveSlot(2, fewer), AdaptiveSlot(2, (0,))]
    slots = draw(st.sampled_from(((every,), *((every, one) for one in larger))))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4), min_size=1, max_size=3))
    model = HashModel(VOCABULARY, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.3, 0.6, 0.9))))
    return scenario_of(
        SpecConfig(1, candidates[-1], path_width(candidates[-1])),
        model,
        [Arrival(tuple(prompt), draw(st.integers(12, 24))) for prompt in prompts],
        max_batch=draw(st.integers(1, 3)),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=draw(st.booleans()),
        adapting=Adapting(
            AdaptiveConfig(slots, alpha=draw(st.sampled_from((0.5, 1.0))), warmup=draw(st.integers(0, 1)), interval=1),
            draw(st.sampled_from(candidates)),
            draw(st.sampled_from(((), (2, 4), (1, 2, 4)))),
        ),
    )
