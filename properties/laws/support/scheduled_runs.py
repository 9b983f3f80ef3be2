"""Whole runs whose scheduling varies: overlapped or not, in chunks, retracted and aborted, in pools that run out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import PoolSizes
from specsim.conformance.backend import Backend, load
from specsim.conformance.calls import CallsByName
from specsim.conformance.completed import Completed
from specsim.properties.composite import composite
from specsim.properties.laws.support.checks import require
from specsim.properties.laws.support.histories import VOCABULARY, Arrival, Scenario, configurations, models, own_worker
from specsim.simulation.engine import Engine
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import most_positions, most_seen, sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.scheduler import Scheduler

MOST_STEPS = 400
"""Steps after which a run is taken to go on for ever; the longest that is drawn takes a tenth."""


_TOKENS = st.integers(0, VOCABULARY - 1)


@dataclass(frozen=True)
class ScheduledRun:
    """A scenario, how it is scheduled, and what is done to its requests on the way.

    ``num_spare_slots`` is what the pool has beyond the largest request, ``num_spare_swa_slots`` what the SWA pool has
    beyond what the largest one holds at once. ``aborts`` name a step and a request,
    ``retractions`` a step and a place among those that hold a row then.
    """

    scenario: Scenario
    schedule: Schedule
    num_spare_slots: int
    aborts: tuple[tuple[int, int], ...] = ()
    retractions: tuple[tuple[int, int], ...] = ()
    page_size: int = 1
    num_spare_swa_slots: int = 0

    def sizes(self) -> PoolSizes:
        """Return pools in which every request finds room alone, and all of them not always together."""
        scenario = self.scenario
        requests, size = scenario.requests(), self.page_size
        largest = max(most_positions(scenario.config, request, size) for request in requests)
        num_pages = 1 + -(-(largest + self.num_spare_slots) // size)
        sizes = sizes_for(scenario.config, requests, scenario.max_batch, size)
        return replace(sizes, num_slots=num_pages * size, num_swa_slots=self._num_swa_slots(largest))

    def _num_swa_slots(self, largest: int) -> int:
        """Return SWA slots for what the largest request holds of them at once, and the spare ones."""
        scenario, size = self.scenario, self.page_size
        longest = max(len(one.prompt) + one.max_new_tokens for one in scenario.requests())
        window = window_of(scenario.model)
        num_seen = most_seen(scenario.config, largest, longest, window, size, self.schedule)
        return (1 + -(-(num_seen + self.num_spare_swa_slots) // size)) * size if window else 0

    def engine(self, backend: Backend, operations: CallsByName | None = None) -> Engine:
        """Return an engine whose scheduler and decisions are an implementation's, around its own worker.

        ``operations`` are asked in the place of the implementation, where somebody watches what is asked.
        """
        scenario = self.scenario
        operations = operations or Completed(backend, load("specsim.reference"))
        worker = own_worker(backend, scenario, self.sizes())
        return Engine(
            worker,
            scenario.max_batch,
            scenario.shuffle_seed,
            schedule=self.schedule,
            operations=operations,
            make_scheduler=backend.make_scheduler(Scheduler),
        )

    @property
    def aborted(self) -> set[int]:
        """The requests that somebody asked to end."""
        return {number for _, number in self.aborts}


def play(run: ScheduledRun, engine: Engine, asked: Sequence[Request] = ()) -> Iterator[int]:
    """Run to the end, requests arriving, aborted and retracted on the way; yield the number of every step.

    ``asked`` has the requests, where somebody keeps an eye on them.
    """
    requests = asked or run.scenario.requests()
    due = [arrival.delay for arrival in run.scenario.arrivals]
    for step in range(MOST_STEPS):
        for number, request in enumerate(requests):
            if due[number] == step:
                engine.submit(request)
        if not engine.has_work and step > max(due):
            return
        for when, number in run.aborts:
            if when == step:
                engine.abort(number)
        for when, number in run.retractions:
            holders = engine.scheduler.holders
            if when == step and holders:
                engine.scheduler.retract(holders[number % len(holders)])
        engine.step()
        yield step
    require(False, "steps of the run", f"more than {MOST_STEPS}", "a tenth of them")


def finished(engine: Engine) -> Sequence[Request]:
    """Return what has ended, by number."""
    return sorted(engine.scheduler.finished, key=lambda request: request.request_id)


@composite
def crowded_arrivals(draw: st.DrawFn) -> tuple[Arrival, ...]:
    """Draw requests whose prompts begin alike and may need several chunks, and whose outputs take a few iterations."""
    shared = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8))
    return tuple(
        Arrival(
            prompt=(*shared[: draw(st.integers(0, len(shared)))], *draw(st.lists(_TOKENS, min_size=1, max_size=4))),
            max_new_tokens=draw(st.sampled_from((1, 3, 9, 12, 16))),
            eos_token=draw(st.one_of(st.none(), st.none(), _TOKENS)),
            delay=draw(st.sampled_from((0, 0, 1, 4))),
        )
        for _ in range(draw(st.integers(2, 4)))
    )


@composite
def scheduled_runs(draw: st.DrawFn, is_v1: bool | None = None) -> ScheduledRun:
    """Draw requests that crowd a small pool; most runs overlap, retract, share prefixes or run prompts in chunks."""
    arrivals = draw(crowded_arrivals())
    chosen_v1 = draw(st.sampled_from((False, False, True))) if is_v1 is None else is_v1
    page_size = draw(st.sampled_from((1, 1, 2, 4)))
    scenario = Scenario(
        config=draw(configurations(3 if page_size == 1 or not chosen_v1 else 1, 3, 7)),
        model=draw(models()),
        arrivals=arrivals,
        max_batch=draw(st.sampled_from((1, 2, 3, 3, 3))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=chosen_v1,
    )
    schedule = Schedule(
        is_overlapped=not chosen_v1 and draw(st.sampled_from((True, True, False))),
        prefill_chunk=draw(st.sampled_from((None, 1, 2, 3, 5))),
        promised=draw(st.sampled_from((Fraction(0), Fraction(0), Fraction(1, 2), Fraction(1)))),
        stream_seed=draw(st.integers(0, 2**16)),
        has_prefix_cache=draw(st.booleans()),
    )
    if schedule.prefill_chunk is not None:
        schedule = replace(schedule, prefill_chunk=max(schedule.prefill_chunk, page_size))
    smallest = min(len(arrival.prompt) for arrival in arrivals) + scenario.config.reserve
    places = st.tuples(st.integers(1, 8), st.integers(0, len(arrivals) - 1))
    return ScheduledRun(
        scenario,
        schedule,
        num_spare_slots=draw(st.integers(0, 2)) * smallest + draw(st.integers(0, 8)),
        aborts=tuple(draw(st.lists(places, max_size=1))),
        retractions=tuple(draw(st.lists(places, max_size=3))),
        page_size=page_size,
    )


def overlapped_runs() -> SearchStrategy[ScheduledRun]:
    """Return a strategy of V2 runs that overlap and abort no one, so that only what the host does on its own varies."""
    overlapped = scheduled_runs(is_v1=False).map(
        lambda run: replace(run, schedule=replace(run.schedule, is_overlapped=True), aborts=())
    )
    return st.one_of(inherited_rows(), inherited_slots(), overlapped)


@composite
def inherited_rows(draw: st.DrawFn) -> ScheduledRun:
    """Draw a run in which the row of a short request goes, while it is a zombie, to a long cached prompt."""
    shared = tuple(draw(st.lists(_TOKENS, min_size=8, max_size=10)))
    first = Arrival(shared, 3, None, 0)
    short = Arrival((draw(_TOKENS),), draw(st.sampled_from((1, 1, 2, 3))), None, 0)
    heir = Arrival((*shared, draw(_TOKENS)), 9, None, 0)
    scenario = Scenario(
        config=draw(configurations(2, 2, 4)),
        model=draw(models()),
        arrivals=(first, short, heir, short, heir),
        max_batch=1,
        shuffle_seed=draw(st.integers(0, 2**16)),
    )
    schedule = Schedule(is_overlapped=True, stream_seed=draw(st.integers(0, 2**16)), has_prefix_cache=True)
    return ScheduledRun(scenario, schedule, num_spare_slots=draw(st.sampled_from((0, 4, 20))))


@composite
def inherited_slots(draw: st.DrawFn) -> ScheduledRun:
    """Draw a run whose pool is so small that what a zombie gave back is prefilled at once for the next request."""
    arrivals = []
    for _ in range(2):
        short, long = draw(st.lists(_TOKENS, min_size=6, max_size=8)), draw(st.lists(_TOKENS, min_size=20, max_size=20))
        arrivals += [Arrival(tuple(short), draw(st.integers(1, 3)), None, 0), Arrival(tuple(long), 2, None, 0)]
    scenario = Scenario(
        config=draw(configurations(2, 2, 4)),
        model=draw(models()),
        arrivals=tuple(arrivals),
        max_batch=1,
        shuffle_seed=draw(st.integers(0, 2**16)),
    )
    schedule = Schedule(is_overlapped=True, stream_seed=draw(st.integers(0, 2**16)), has_prefix_cache=True)
    return ScheduledRun(scenario, schedule, num_spare_slots=0)


@composite
def aborted_runs(draw: st.DrawFn) -> ScheduledRun:
    """Draw a run in which a request of a long output is aborted while it runs; most of them on V1."""
    run = draw(scheduled_runs(is_v1=draw(st.sampled_from((True, True, False)))))
    number = draw(st.integers(0, len(run.scenario.arrivals) - 1))
    arrivals = list(run.scenario.arrivals)
    arrivals[number] = replace(arrivals[number], max_new_tokens=16, eos_token=None, delay=0)
    in_order = (arrivals.pop(number), *arrivals)
    return replace(
        run,
        scenario=replace(run.scenario, arrivals=in_order, model=replace(run.scenario.model, agreement=0.9)),
        schedule=replace(run.schedule, prefill_chunk=None),
        aborts=((draw(st.integers(1, 3)), 0),),
        retractions=(),
    )
