"""Whole runs whose scheduling varies: overlapped or not, in chunks, retracted and aborted, in pools that run out."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.properties.composite import composite
from specsim.properties.runs.histories import VOCABULARY, configurations, models
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.simulation.schedule import Schedule

_TOKENS = st.integers(0, VOCABULARY - 1)


@composite
def crowded_arrivals(draw: st.DrawFn) -> tuple[Arrival, ...]:
    """Draw requests whose prompts begin alike and may need several chunks, and whose outputs take a few iterations."""
    shared = draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=8))
    return tuple(
        Arrival(
            prompt=(*shared[: draw(st.integers(0, len(shared)))], *draw(st.lists(_TOKENS, min_size=1, max_size=4))),
            max_new_tokens=draw(st.sampled_from((1, 3, 9, 12, 16))),
            eos_token=draw(st.one_of(st.none(), st.none(), _TOKENS)),
            step=draw(st.sampled_from((0, 0, 1, 4))),
        )
        for _ in range(draw(st.integers(2, 4)))
    )


@composite
def scheduled_runs(draw: st.DrawFn, is_v1: bool | None = None) -> Scenario:
    """Draw requests that crowd a small pool; most runs overlap, retract, share prefixes or run prompts in chunks."""
    arrivals = draw(crowded_arrivals())
    chosen_v1 = draw(st.sampled_from((False, False, True))) if is_v1 is None else is_v1
    page_size = draw(st.sampled_from((1, 1, 2, 4)))
    config = draw(configurations(3 if page_size == 1 or not chosen_v1 else 1, 3, 7))
    smallest = min(len(arrival.prompt) for arrival in arrivals) + config.reserve
    places = st.tuples(st.integers(1, 8), st.integers(0, len(arrivals) - 1))
    chunk = draw(st.sampled_from((None, 1, 2, 3, 5)))
    return scenario_of(
        config,
        draw(models()),
        arrivals,
        max_batch=draw(st.sampled_from((1, 2, 3, 3, 3))),
        shuffle_seed=draw(st.integers(0, 2**16)),
        is_v1=chosen_v1,
        schedule=Schedule(
            is_overlapped=not chosen_v1 and draw(st.sampled_from((True, True, False))),
            prefill_chunk=None if chunk is None else max(chunk, page_size),
            promised=draw(st.sampled_from((Fraction(0), Fraction(0), Fraction(1, 2), Fraction(1)))),
            stream_seed=draw(st.integers(0, 2**16)),
            has_prefix_cache=draw(st.booleans()),
        ),
        num_spare_slots=draw(st.integers(0, 2)) * smallest + draw(st.integers(0, 8)),
        aborts=tuple(draw(st.lists(places, max_size=1))),
        retractions=tuple(draw(st.lists(places, max_size=3))),
        page_size=page_size,
    )


def overlapped_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of V2 runs that overlap and abort no one, so that only what the host does on its own varies."""
    overlapped = scheduled_runs(is_v1=False).map(lambda run: run.having(is_overlapped=True, aborts=()))
    return st.one_of(inherited_rows(), inherited_slots(), overlapped)


@composite
def inherited_rows(draw: st.DrawFn) -> Scenario:
    """Draw a run in which the row of a short request goes, while it is a zombie, to a long cached prompt."""
    shared = tuple(draw(st.lists(_TOKENS, min_size=8, max_size=10)))
    short = Arrival((draw(_TOKENS),), draw(st.sampled_from((1, 1, 2, 3))))
    heir = Arrival((*shared, draw(_TOKENS)), 9)
    in_order = (Arrival(shared, 3), short, heir, short, heir)
    return draw(_one_by_one(in_order)).having(num_spare_slots=draw(st.sampled_from((0, 4, 20))))


@composite
def inherited_slots(draw: st.DrawFn) -> Scenario:
    """Draw a run whose pool is so small that what a zombie gave back is prefilled at once for the next request."""
    in_order = []
    for _ in range(2):
        short, long = draw(st.lists(_TOKENS, min_size=6, max_size=8)), draw(st.lists(_TOKENS, min_size=20, max_size=20))
        in_order += [Arrival(tuple(short), draw(st.integers(1, 3))), Arrival(tuple(long), 2)]
    return draw(_one_by_one(tuple(in_order)))


@composite
def _one_by_one(draw: st.DrawFn, arrivals: tuple[Arrival, ...]) -> Scenario:
    """Draw a run in which requests follow each other in one row, in a pool that has room for the largest."""
    schedule = Schedule(is_overlapped=True, stream_seed=draw(st.integers(0, 2**16)), has_prefix_cache=True)
    config, seed = draw(configurations(2, 2, 4)), draw(st.integers(0, 2**16))
    return scenario_of(config, draw(models()), arrivals, 1, seed, schedule=schedule, num_spare_slots=0)


@composite
def aborted_runs(draw: st.DrawFn) -> Scenario:
    """Draw a run in which a request of a long output is aborted while it runs; most of them on V1."""
    run = draw(scheduled_runs(is_v1=draw(st.sampled_from((True, True, False)))))
    arrivals = list(run.arrivals)
    first = replace(arrivals.pop(draw(st.integers(0, len(arrivals) - 1))), max_new_tokens=16, eos_token=None, step=0)
    return run.having(
        arrivals=(first, *arrivals),
        agreement=0.9,
        prefill_chunk=None,
        aborts=((draw(st.integers(1, 3)), 0),),
        retractions=(),
    )
