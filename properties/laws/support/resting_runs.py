"""Whole runs of chains whose iterations draft as many steps as a pattern says, none at all among them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from hypothesis import strategies as st

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot, AdaptiveState
from specsim.properties.composite import composite
from specsim.properties.laws.support.histories import VOCABULARY, Arrival, Scenario, models, own_worker, parts_of
from specsim.simulation.engine import Engine
from specsim.simulation.scheduler import Scheduler

LONGEST_REST = 8
"""Iterations without a step that follow each other: more than a reserve of two iterations has room for."""


@dataclass(frozen=True)
class RestingRun:
    """A run, and how many steps its iterations draft: the pattern again and again."""

    scenario: Scenario
    pattern: tuple[int, ...]

    def num_steps(self, number: int) -> int:
        """Return how many steps an iteration drafts, by its number."""
        return self.pattern[number % len(self.pattern)]

    def engine(self, backend: Backend) -> Engine:
        """Return an engine with all requests waiting, around the implementation's own worker."""
        scenario = self.scenario
        candidates = tuple(sorted({*self.pattern, scenario.config.num_steps}))
        controller = AdaptiveController(
            self.pattern[0], AdaptiveConfig((AdaptiveSlot(1, candidates),)), adapt=self._follow
        )
        engine = Engine(
            own_worker(backend, scenario),
            scenario.max_batch,
            scenario.shuffle_seed,
            adaptive=controller,
            operations=parts_of(backend),
            make_scheduler=backend.make_scheduler(Scheduler),
        )
        for request in scenario.requests():
            engine.submit(request)
        return engine

    def _follow(
        self, state: AdaptiveState, num_accepted_drafts: Sequence[int], slot: AdaptiveSlot, config: AdaptiveConfig
    ) -> AdaptiveState:
        """Return the state before the next iteration, whatever was accepted."""
        del num_accepted_drafts, slot, config
        return replace(state, num_steps=self.num_steps(state.count + 1), count=state.count + 1)


@composite
def resting_runs(draw: st.DrawFn) -> RestingRun:
    """Draw a run that rests, drafts and rests again; most rests outlast what is reserved when they begin."""
    deepest = draw(st.sampled_from((3, 2, 3, 2, 1)))
    others = st.lists(st.sampled_from((deepest, 1)), max_size=1)
    rests = draw(st.lists(st.sampled_from((LONGEST_REST, 1, 2)), max_size=1))
    pattern = tuple(chain.from_iterable((*[0] * count, deepest, *draw(others)) for count in (LONGEST_REST, *rests)))
    model = draw(models())
    if draw(st.booleans()):
        model = replace(model, agreement=1.0, num_right=None)
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4), min_size=1, max_size=2))
    scenario = Scenario(
        config=SpecConfig(1, deepest, path_width(deepest)),
        model=model,
        arrivals=tuple(Arrival(tuple(prompt), draw(st.integers(14, 18)), None, 0) for prompt in prompts),
        max_batch=draw(st.integers(1, 2)),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=draw(st.sampled_from((False, True, False))),
    )
    return RestingRun(scenario, pattern)
