"""Whole runs in which every request drafts a number of steps of its own, anew in each of its iterations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import EAGLE_V1, EAGLE_V2, Backend, load
from specsim.conformance.completed import Completed
from specsim.properties.composite import composite
from specsim.properties.laws.support.constrained_runs import Automaton, automata
from specsim.properties.laws.support.histories import VOCABULARY, Arrival, Scenario, models
from specsim.properties.laws.support.padded_runs import V1_WORKERS, V2_WORKERS, PaddedRun, run_of
from specsim.properties.reach.counting import reached
from specsim.reference.models import load_model
from specsim.rejection import SpecRejection, WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.events import Tag
from specsim.simulation.fitting import require_schedule
from specsim.simulation.loops import loop_of
from specsim.simulation.numbers import NumDrafts
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.worker import Worker

MOST = 1 << 16
"""Stands in a pattern for as many steps as there are."""

PATTERNS = ((0, MOST, 1), (0, 0, MOST, 1, MOST), (1, 0, MOST, 2), (MOST, 0), (0, 1), (1, 2, 0, MOST))
"""Numbers that follow each other; neighbours are at different places, so that batches mix them."""

TAGS = Tag.MIXED, Tag.RESTING, Tag.NARROWER, Tag.WIDER
"""What every run reaches whose requests draft numbers of their own."""

ALL_WORKERS = (*V1_WORKERS, *V2_WORKERS)
"""Every drafter on both loops, by the names of their workers."""


@dataclass(frozen=True)
class PatternNumbers:
    """Goes through a pattern again and again; each request begins one place further than the one before it."""

    pattern: tuple[int, ...]

    def __call__(self, requests: Sequence[Request], most: int) -> list[int]:
        """Return the numbers."""
        places = [request.request_id + request.counters.num_verifies for request in requests]
        return [min(most, self.pattern[place % len(self.pattern)]) for place in places]


class NotedNumbers:
    """Takes the numbers of others, and notes them: an entry an iteration, in the order of the launches."""

    def __init__(self, numbers: NumDrafts) -> None:
        self._numbers = numbers
        self.noted: list[list[int]] = []

    def __call__(self, requests: Sequence[Request], most: int) -> Sequence[int]:
        """Return the numbers."""
        self.noted.append(list(self._numbers(requests, most)))
        return self.noted[-1]


@dataclass(frozen=True)
class NumberedRun:
    """A run of a worker by its name, and how many steps its requests draft; some of them may have grammars."""

    run: PaddedRun
    pattern: tuple[int, ...]
    is_overlapped: bool = False
    grammars: tuple[Automaton | None, ...] = ()

    @property
    def scenario(self) -> Scenario:
        """What is asked for."""
        return self.run.scenario

    def numbers(self) -> NotedNumbers:
        """Return what chooses how many steps requests draft."""
        return NotedNumbers(PatternNumbers(self.pattern))

    def requests(self) -> list[Request]:
        """Return fresh requests."""
        asked = self.scenario.requests()
        for request, grammar in zip(asked, self.grammars, strict=False):
            request.grammar = None if grammar is None else grammar.start
        return asked

    def own_worker(self, backend: Backend) -> Worker:
        """Return the implementation's own worker, or the reference's loop on its operations if it has none.

        Raises
        ------
        WorkerRefusal
            Its own worker drafts one number of steps for all requests.
        """
        worker = self.run.own_worker(backend)
        try:
            require_schedule(worker, Schedule(num_drafts=self.numbers()))
        except SpecRejection as refusal:
            raise WorkerRefusal(refusal) from refusal
        return worker

    def believed_worker(self) -> Worker:
        """Return the reference's worker."""
        make = loop_of(self.run.base_name)
        worker: Worker = make(self.run.parameters, load_model(self.scenario.model), self.run.sizes())
        return worker

    def engine(self, backend: Backend, worker: Worker, numbers: NumDrafts) -> Engine:
        """Return an engine with all requests waiting, which counts what it reaches."""
        scenario = self.scenario
        schedule = Schedule(self.is_overlapped, stream_seed=scenario.shuffle_seed, num_drafts=numbers)
        engine = Engine(
            worker,
            scenario.max_batch,
            scenario.shuffle_seed,
            schedule=schedule,
            operations=Completed(backend, load("specsim.reference")),
            observer=lambda tag: reached(tag) if tag in TAGS else None,
            make_scheduler=backend.make_scheduler(Scheduler),
        )
        for request in self.requests():
            engine.submit(request)
        return engine


@composite
def numbered_runs(draw: st.DrawFn, names: tuple[str, ...] = ALL_WORKERS) -> NumberedRun:
    """Draw a run of two or three requests that decode together and mix their numbers; some of V2 overlap."""
    name = draw(st.sampled_from(names))
    is_overlapped = name in V2_WORKERS and draw(st.sampled_from((False, True)))
    config = draw(st.sampled_from((SpecConfig(1, 3, 4), SpecConfig(2, 2, 5), SpecConfig(1, 2, 3), SpecConfig(2, 3, 6))))
    model = draw(models())
    prompts = draw(st.lists(st.lists(st.integers(0, VOCABULARY - 1), max_size=4), min_size=2, max_size=3))
    scenario = Scenario(
        config=config,
        model=draw(st.sampled_from((replace(model, agreement=1.0, num_right=None), model))),
        arrivals=tuple(
            Arrival((number, *prompt), draw(st.integers(12, 16)), None, 0) for number, prompt in enumerate(prompts)
        ),
        max_batch=draw(st.sampled_from((3, 2))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        page_size=draw(st.sampled_from((1, 1, 4))),
    )
    return NumberedRun(run_of(name, scenario), draw(st.sampled_from(PATTERNS)), is_overlapped)


def numbered_runs_of_eagle() -> SearchStrategy[NumberedRun]:
    """Return a strategy of runs of EAGLE in turn, so that every iteration is seen right after it."""
    return numbered_runs((EAGLE_V2, EAGLE_V1)).map(lambda run: replace(run, is_overlapped=False))


@composite
def numbered_grammars(draw: st.DrawFn) -> NumberedRun:
    """Draw such a run whose requests have grammars; most batches are narrower than their chains could be."""
    run = draw(numbered_runs_of_eagle())
    scenario = replace(run.scenario, config=draw(st.sampled_from((SpecConfig(1, 3, 4), SpecConfig(1, 2, 3)))))
    return replace(
        run,
        run=replace(run.run, scenario=scenario),
        pattern=draw(st.sampled_from(((0, 1), (1, 0, 1, MOST)))),
        grammars=tuple(draw(automata()) for _ in scenario.arrivals),
    )
