"""Whole runs whose requests bring processors and grammars of their own, and runs whose steps adapt."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.counts import path_width
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot
from specsim.host.grammar import TableGrammar
from specsim.properties.composite import composite
from specsim.properties.laws.support.histories import (
    VOCABULARY,
    Arrival,
    Scenario,
    own_worker,
    parts_of,
    trees_or_any_scenario,
)
from specsim.simulation.engine import Engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule


@dataclass(frozen=True)
class Shifted:
    """A processor that gives every token the logits of an earlier one, on any arrays."""

    count: int

    def __call__(self, rows: Any) -> Any:
        """Return the rows, their columns turned."""
        vocab_size = rows.shape[1]
        return rows[:, [(token - self.count) % vocab_size for token in range(vocab_size)]]


@dataclass(frozen=True)
class Automaton:
    """A grammar whose every state but the last goes on; from each state the next ones are drawn from a seed.

    ``density`` is the share of tokens that a state allows; one in ``one_in`` of them leads to the last state, in which
    the text is complete.
    """

    vocab_size: int
    num_states: int
    density: float
    one_in: int
    seed: int

    def tables(self) -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.bool_]]]:
        """Return transitions int32 [state, vocab] and the states in which the text is complete."""
        random = np.random.default_rng(self.seed)
        shape, end = (self.num_states, self.vocab_size), self.num_states - 1
        following = random.integers(0, end, shape).astype(np.int32)
        following[random.integers(0, self.one_in, shape) == 0] = end
        is_allowed = random.random(shape) < self.density
        is_allowed[np.arange(self.num_states), random.integers(0, self.vocab_size, self.num_states)] = True
        return np.where(is_allowed, following, np.int32(-1)), np.arange(self.num_states) == end

    def start(self) -> TableGrammar:
        """Return a matcher that has read nothing."""
        return TableGrammar(*self.tables(), 0)


@dataclass(frozen=True)
class ConstrainedRun:
    """A run, and for each of its requests a processor and a grammar, or None; V2 may overlap."""

    scenario: Scenario
    processors: tuple[Shifted | None, ...]
    grammars: tuple[Automaton | None, ...]
    schedule: Schedule = IN_TURN

    def requests(self) -> list[Request]:
        """Return fresh requests, numbered in order of arrival."""
        return [
            replace(request, processor=processor, grammar=None if grammar is None else grammar.start)
            for request, processor, grammar in zip(
                self.scenario.requests(), self.processors, self.grammars, strict=True
            )
        ]

    def engine(self, backend: Backend) -> Engine:
        """Return an engine with all requests waiting."""
        scenario = self.scenario
        worker = own_worker(backend, scenario)
        operations = Completed(backend, load("specsim.reference"))
        engine = Engine(
            worker, scenario.max_batch, scenario.shuffle_seed, schedule=self.schedule, operations=operations
        )
        for request in self.requests():
            engine.submit(request)
        return engine


@dataclass(frozen=True)
class AdaptiveRun:
    """A run of chains as deep as the deepest candidate of a controller."""

    scenario: Scenario
    adaptive: AdaptiveConfig
    initial_steps: int
    graph_sizes: tuple[int, ...] = ()

    def controller(self, backend: Backend) -> AdaptiveController:
        """Return a controller that decides as an implementation does."""
        return AdaptiveController(
            self.initial_steps,
            self.adaptive,
            self.graph_sizes,
            adapt=backend.host("adapt_num_steps"),
            route=backend.host("route_batch_size"),
        )

    def engine(self, backend: Backend, controller: AdaptiveController) -> Engine:
        """Return an engine with all requests waiting."""
        scenario = self.scenario
        worker = own_worker(backend, scenario)
        operations = parts_of(backend)
        engine = Engine(worker, scenario.max_batch, scenario.shuffle_seed, adaptive=controller, operations=operations)
        for request in scenario.requests():
            engine.submit(request)
        return engine


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
def constrained_runs(draw: st.DrawFn) -> ConstrainedRun:
    """Draw a run in which most requests have a grammar and some a processor."""
    scenario = draw(trees_or_any_scenario())
    count = len(scenario.arrivals)
    grammars = [draw(st.one_of(automata(), automata(), st.none())) for _ in range(count)]
    processors = [draw(st.one_of(st.none(), st.builds(Shifted, st.integers(1, 5)))) for _ in range(count)]
    is_v1, is_overlapped = draw(st.sampled_from(((True, False), (False, False), (False, True), (False, True))))
    schedule = Schedule(is_overlapped, stream_seed=draw(st.integers(0, 2**16)))
    return ConstrainedRun(replace(scenario, is_v1=is_v1), tuple(processors), tuple(grammars), schedule)


@composite
def adaptive_runs(draw: st.DrawFn) -> AdaptiveRun:
    """Draw a run long enough for a controller that decides early to change its mind, up and down."""
    candidates = draw(st.sampled_from(((1, 2, 4), (1, 3), (2, 4), (1, 2, 3, 4), (0, 1, 3), (0, 2))))
    fewer = candidates[:-1]
    every, *larger = [AdaptiveSlot(1, candidates), AdaptiveSlot(2, fewer), AdaptiveSlot(2, (0,))]
    slots = draw(st.sampled_from(((every,), *((every, one) for one in larger))))
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=4), min_size=1, max_size=3))
    model = HashModel(VOCABULARY, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((0.3, 0.6, 0.9))))
    return AdaptiveRun(
        Scenario(
            config=SpecConfig(1, candidates[-1], path_width(candidates[-1])),
            model=model,
            arrivals=tuple(Arrival(tuple(prompt), draw(st.integers(12, 24)), None, 0) for prompt in prompts),
            max_batch=draw(st.integers(1, 3)),
            shuffle_seed=draw(st.integers(0, 2**16)),
            is_v1=draw(st.booleans()),
        ),
        AdaptiveConfig(slots, alpha=draw(st.sampled_from((0.5, 1.0))), warmup=draw(st.integers(0, 1)), interval=1),
        draw(st.sampled_from(candidates)),
        draw(st.sampled_from(((), (2, 4), (1, 2, 4)))),
    )
