"""Whole runs of which something leaves after every step and at every end: cut, aborted, retracted, at rest."""

from dataclasses import replace
from fractions import Fraction
from random import Random

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.counts import path_width
from specsim.properties.composite import composite
from specsim.properties.memory.strategy_committed import PAGE_SIZES
from specsim.properties.runs.histories import VOCABULARY, models
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.steps.numbered_runs import PATTERNS, PatternNumbers
from specsim.properties.seeds import source_of
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import PoolKind
from specsim.simulation.schedule import Schedule

SHORTEST = 4
"""Output tokens of a request at least, so that the target judges some drafts of each."""


def _arrival(source: Random, model: HashModel, page_size: int, number: int) -> Arrival:
    """Return a request whose text ends at any place of a page with equal chance; half of them have a stop inside."""
    shared = source.randrange(2) * page_size
    prompt = (*range(shared), *(source.randrange(VOCABULARY) for _ in range(source.randint(1, 5))))
    least = len(prompt) + SHORTEST
    length = least + (source.randrange(page_size) - least) % page_size + (page_size if page_size < SHORTEST * 2 else 0)
    num_tokens = length - len(prompt)
    stop = None
    if source.randrange(2):
        stop = greedy_decode(model, prompt, num_tokens)[source.randrange(1, num_tokens)]
    return Arrival(prompt, num_tokens, stop, 0 if number == 0 else source.choice((0, 0, 1, 4)))


@composite
def exporting_runs(draw: st.DrawFn, kinds: tuple[PoolKind, ...] = (PoolKind.MHA,)) -> Scenario:
    """Draw a run on pages of 4 (half of them), 1 or 16.

    Two thirds draft trees, whose accepted paths have to move, two thirds run on V2 and most of these overlap; half of
    the drafts are always right, half of the runs retract somebody, a quarter aborts one, a quarter rests at times.
    These shares come from seeds, because examples that resemble each other would miss the rarer ones.
    """
    seeds = draw(st.tuples(*[st.integers(0, 2**16)] * 4))
    source = source_of(f"{seeds}")
    page_size = source.choice(PAGE_SIZES)
    is_v1 = source.randrange(3) == 0
    topk, num_steps = source.choice((2, 3, 1)), draw(st.integers(2, 3))
    config = SpecConfig(topk, num_steps, path_width(num_steps) + (draw(st.integers(2, 3)) if topk > 1 else 0))
    model = replace(draw(models()), target_pool=draw(st.sampled_from(kinds)), num_right=None, hot_token_id=None)
    model = replace(model, agreement=source.choice((1.0, 0.8)))
    arrivals = tuple(_arrival(source, model, page_size, number) for number in range(draw(st.integers(2, 3))))
    has_states = model.target_pool is not PoolKind.MHA
    chunk = source.choice((None, page_size, 3))
    schedule = Schedule(
        is_overlapped=not is_v1 and source.randrange(3) > 0,
        prefill_chunk=None if chunk is None else max(chunk, page_size),
        promised=source.choice((Fraction(1), Fraction(0))),
        stream_seed=seeds[0],
        has_prefix_cache=not has_states and source.randrange(2) == 0,
        num_drafts=PatternNumbers(source.choice(PATTERNS)) if source.randrange(4) == 0 else None,
    )

    def places(count: int) -> tuple[tuple[int, int], ...]:
        return tuple((source.randint(2, 6), source.randrange(len(arrivals))) for _ in range(count))

    return scenario_of(
        config,
        model,
        arrivals,
        max_batch=draw(st.sampled_from((2, 3, 1))),
        shuffle_seed=seeds[1],
        is_v1=is_v1,
        schedule=schedule,
        num_spare_slots=source.choice((300, 300, 20)),
        aborts=places(1) if source.randrange(4) == 0 else (),
        retractions=places(source.randint(1, 2)) if source.randrange(2) else (),
        page_size=page_size,
        lag=draw(st.integers(1, 5)),
    )


def transferring_runs() -> SearchStrategy[Scenario]:
    """Return a strategy of runs with room for what is given back and still on its way; all retract somebody."""
    return exporting_runs().map(
        lambda run: run.having(
            num_spare_slots=1200, retractions=run.course.retractions or ((4 + run.course.lag % 3, 0),)
        )
    )


def recurrent_exports() -> SearchStrategy[Scenario]:
    """Return a strategy of runs whose target has recurrent state; half of them overlap as little as V1.

    In three of five one token of a prompt is left for its last chunk.
    """
    return exporting_runs(kinds=(PoolKind.HYBRID, PoolKind.ZERO_LAYER, PoolKind.NO_KV)).map(_of_states)


def _of_states(run: Scenario) -> Scenario:
    if run.course.lag % 2 == 0:
        run = run.having(is_overlapped=False)
    if run.course.lag <= WITH_LAST_TOKEN:
        chunk = max(run.room.page_size, 3)
        first, *others = run.arrivals
        first = replace(first, prompt=tuple(range(chunk + 1)))
        run = run.having(arrivals=(first, *others), prefill_chunk=chunk)
    return run


WITH_LAST_TOKEN = 3
"""The largest lag of the runs in which one token is left for a last chunk."""
