"""Whole runs of which a request goes on in another engine, of the same drafter and of other sizes."""

from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.composite import composite
from specsim.properties.memory.exported import Watched
from specsim.properties.runs.drafted import V1_WORKERS, V2_WORKERS, drafted_by
from specsim.properties.runs.histories import VOCABULARY, models
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.seeds import source_of
from specsim.rejection import SpecRejection, WorkerRefusal
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS, PoolKind
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.turns.exporting import require_loading

DRAFTERS = tuple(zip(V1_WORKERS, V2_WORKERS, strict=True))
KINDS = (PoolKind.MHA, PoolKind.MLA, PoolKind.QUANTISED)
STATES = (PoolKind.HYBRID, PoolKind.HYBRID, PoolKind.ZERO_LAYER, PoolKind.NO_KV)
PAGE_SIZES = ((1, 1), (4, 4), (1, 4), (4, 1), (4, 2), (2, 4))
LONGER = 4
"""Tokens that a conversation goes on with after an end."""


def play_that_loads(scenario: Scenario, backend: Backend) -> tuple[Play, Watched]:
    """Return a play whose worker loads texts, and its operations, which show who leaves.

    Raises
    ------
    WorkerRefusal
        The implementation's own worker loads nothing.
    """
    watched = Watched(parts_of(backend))
    play = Play(scenario, backend, operations=watched, has_own_scheduler=True)
    try:
        require_loading(play.worker)
    except SpecRejection as refusal:
        raise WorkerRefusal(refusal) from refusal
    return play, watched


@dataclass(frozen=True)
class Move:
    """What is handed over, when, and where it goes on.

    ``at`` is the step after which a request is handed over, that of ``number``, or the next one that can be, and
    ``lag`` how many more its engine makes before it is loaded. With ``is_ended`` it is handed over at its end, and a
    request with more tokens goes on. ``warm`` steps are made where it goes on before it is loaded.
    """

    source: Scenario
    target: Scenario
    at: int
    number: int
    lag: int
    warm: int
    is_ended: bool

    def neighbour(self, text: tuple[int, ...]) -> Request:
        """Return a request that is there already, whose prompt begins as the text does."""
        return Request(100, (*text[: len(text) // 2], 1), 6)


def _runs_on(kind: PoolKind, name: str) -> bool:
    """Return whether texts of a kind go on with a drafter; layers have read less than states, which do not go back."""
    if name.startswith("frozen"):
        return kind not in (PoolKind.SWA, *RECURRENT_KINDS)
    return kind not in RECURRENT_KINDS or not name.startswith("multi_layer")


def _schedule(source: Random, name: str, has_cache: bool, waits: bool) -> Schedule:
    return Schedule(
        is_overlapped=name in V2_WORKERS and not waits and source.randrange(2) == 0,
        prefill_chunk=source.choice((None, 4, 4, None)),
        stream_seed=source.randrange(1 << 16),
        has_prefix_cache=has_cache,
    )


@composite
def loading_runs(draw: st.DrawFn, kinds: tuple[PoolKind, ...] = KINDS) -> Move:
    """Draw a run of every drafter, on either worker, and another worker of other drafts and pages that goes on.

    A third is handed over at its end, of most inside an accepted run, one in ten in the middle of its prompt; half goes
    on beside a prefix cache, a quarter with a front of its text there. Runs with recurrent state do without ends and
    caches. These shares come from seeds, because examples that resemble each other would miss the rarer ones.
    """
    source = source_of(f"{draw(st.tuples(*[st.integers(0, 2**16)] * 2))}")
    kind = source.choice(kinds)
    drafter = source.choice([names for names in DRAFTERS if _runs_on(kind, names[0])])
    names, sizes = [source.choice(drafter) for _ in range(2)], source.choice(PAGE_SIZES)
    is_ended = kind not in RECURRENT_KINDS and source.randrange(3) == 0
    num_steps = source.choice((2, 3))
    config = source.choice((SpecConfig(1, num_steps, path_width(num_steps)), SpecConfig(2, num_steps, num_steps + 3)))
    agreement = 1.0 if is_ended else source.choice((1.0, 0.8))
    model = replace(draw(models()), num_right=None, agreement=agreement, hot_token_id=None)
    prompts = [tuple(source.randrange(VOCABULARY) for _ in range(source.choice((2, 5, 11)))) for _ in range(2)]
    num_tokens = [source.randint(10, 15) for _ in prompts]
    scenario = scenario_of(
        config,
        model,
        [Arrival(one, count) for one, count in zip(prompts, num_tokens, strict=True)],
        max_batch=2,
        shuffle_seed=source.randrange(1 << 16),
        page_size=sizes[0],
    )
    first = drafted_by(names[0], scenario, target_pool=kind)
    model, arrivals = first.model, []
    for one in first.arrivals:
        stop = None
        if is_ended:
            stop = greedy_decode(model, one.prompt, one.max_new_tokens)[source.randrange(3, one.max_new_tokens)]
        arrivals.append(replace(one, eos_token=stop))
    first = first.having(arrivals=tuple(arrivals))
    other = config if names[0].startswith("multi_layer") else SpecConfig(1, 2, 3)
    second = drafted_by(
        names[1],
        first.having(sizes=source.choice((config, other)), page_size=sizes[1]),
        model=model,
        shuffle_seed=source.randrange(1 << 16),
    )
    has_states = model.target_pool in RECURRENT_KINDS
    return Move(
        first.having(schedule=_schedule(source, names[0], False, has_states)),
        second.having(schedule=_schedule(source, names[1], not has_states and source.randrange(2) == 0, False)),
        at=source.choice((0, 1, 1, 2)),
        number=source.randrange(2),
        lag=source.randrange(3),
        warm=source.choice((3, 3, 2, 0)),
        is_ended=is_ended,
    )


def window_loads() -> SearchStrategy[Move]:
    """Return a strategy of runs whose targets have layers with a sliding window."""
    return loading_runs(kinds=(PoolKind.SWA,))


def recurrent_loads() -> SearchStrategy[Move]:
    """Return a strategy of runs whose targets have recurrent state."""
    return loading_runs(kinds=STATES)
