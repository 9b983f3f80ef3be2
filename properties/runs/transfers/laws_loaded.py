"""Laws of texts that go on in another engine: it outputs and stores what it would if it had computed them itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, require_equal, require_present, states_of_runs
from specsim.properties.memory.exported import Watched
from specsim.properties.property import OF_ENGINES
from specsim.properties.runs.drafted import V1_WORKERS, V2_WORKERS, drafted_by
from specsim.properties.runs.histories import VOCABULARY, models
from specsim.properties.runs.play import Play, own_worker, parts_of
from specsim.properties.runs.sampling.laws_acceptance import drawn_runs
from specsim.properties.runs.sampling.sampled_law import DRAW, require_drawn_alone
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.seeds import source_of
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.handing_over import HandOver
from specsim.simulation.memory import Holding
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.pool_kinds import RECURRENT_KINDS, PoolKind
from specsim.simulation.requests import Request
from specsim.simulation.schedule import Schedule
from specsim.simulation.turns.exporting import require_loading
from specsim.simulation.worker import is_mixing

DRAFTERS = tuple(zip(V1_WORKERS, V2_WORKERS, strict=True))
KINDS = (PoolKind.MHA, PoolKind.MLA, PoolKind.QUANTISED)
STATES = (PoolKind.HYBRID, PoolKind.HYBRID, PoolKind.ZERO_LAYER, PoolKind.NO_KV)
PAGE_SIZES = ((1, 1), (4, 4), (1, 4), (4, 1), (4, 2), (2, 4))
LONGER = 4
"""Tokens that a conversation goes on with after an end."""


def watched_play(scenario: Scenario, backend: Backend, arrivals: Sequence[Arrival] = ()) -> tuple[Play, Watched]:
    """Return a play with room for the requests of the run, or for others, and its operations, which show who leaves.

    A worker that has one number of drafts for all requests gets that of its configuration.
    """
    watched = Watched(parts_of(backend))
    worker = own_worker(backend, scenario.having(arrivals=tuple(arrivals or scenario.arrivals)))
    if not is_mixing(worker):
        scenario = scenario.having(num_drafts=None)
    return Play(scenario, backend, operations=watched, worker=worker, has_own_scheduler=True), watched


def play_that_loads(scenario: Scenario, backend: Backend) -> tuple[Play, Watched]:
    """Return a play whose worker loads texts, and its operations, which show who leaves.

    Raises
    ------
    WorkerRefusal
        The implementation's own worker loads nothing.
    """
    play, watched = watched_play(scenario, backend)
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
    asked = [Arrival(one, count) for one, count in zip(prompts, num_tokens, strict=True)]
    scenario = scenario_of(config, model, asked, 2, source.randrange(1 << 16), page_size=sizes[0])
    first = drafted_by(names[0], scenario, target_pool=kind)
    model, arrivals = first.model, []
    for one in first.arrivals:
        stop = None
        if is_ended:
            stop = greedy_decode(model, one.prompt, one.max_new_tokens)[source.randrange(3, one.max_new_tokens)]
        arrivals.append(replace(one, eos_token=stop))
    first = first.having(arrivals=tuple(arrivals))
    other = config if names[0].startswith("multi_layer") else SpecConfig(1, 2, 3)
    resized = first.having(sizes=source.choice((config, other)), page_size=sizes[1])
    second = drafted_by(names[1], resized, model=model, shuffle_seed=source.randrange(1 << 16))
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


OPERATIONS = ("loadable_positions", "export_text", "allocate_chunk", "evict_behind_window")
"""What decides how much is loaded, and where."""

MOST_STEPS = 200


def a_text_goes_on_as_if_it_had_been_computed_there(backend: Backend, run: Move) -> None:
    """Wherever a request goes on, it outputs what it outputs token by token, and its drafts are as good as ever.

    Its engine is compared with one that computes the text itself: both accept as many drafts of each verify, and have
    the same in both caches, in layers with a sliding window and in states when the request ends.
    """
    handed = _handed_over(backend, run)
    if handed is None:
        return
    mover, left = handed
    alone = mover.elsewhere()
    found: list[HandOver | None] = []
    for request, taken in ((mover, left), (alone, None)):
        found.append(_go_on(backend, run, request, taken))
    if found[0] is None:
        return
    what = f"request {mover.request_id}, loaded into {run.target.worker_name}"
    model = run.target.model
    output = greedy_decode(model, mover.prompt, mover.max_new_tokens, mover.eos_token)
    require(mover.output == output, f"output of {what}", mover.output, output)
    stored = [require_present("what was stored", one) for one in found]
    # NOTE: what a store has of the neighbours depends on when they came.
    if not run.target.drafter.has_memory:
        require(mover.counters == alone.counters, f"counters of {what}", mover.counters, alone.counters)
        require(stored[0].lengths == stored[1].lengths, f"lengths of {what}", stored[0].lengths, stored[1].lengths)
    _require_alike(what, *stored)


def a_window_goes_on_where_it_was_left(backend: Backend, run: Move) -> None:
    """The same where layers have a sliding window: of these the last positions are loaded, and no more is read."""
    a_text_goes_on_as_if_it_had_been_computed_there(backend, run)


def states_go_on_after_the_tokens_that_they_have_read(backend: Backend, run: Move) -> None:
    """The same where the target has recurrent state, which leaves as it was then and arrives with its tokens."""
    a_text_goes_on_as_if_it_had_been_computed_there(backend, run)


def a_sampled_text_goes_on_on_its_noise(backend: Backend, run: Move) -> None:
    """Wherever a sampled request goes on, it outputs what its target draws alone on the noise of its seed."""
    (first, _), (second, _) = (play_that_loads(one, backend) for one in (run.source, run.target))
    for _ in islice(first.turns(), run.at):
        pass
    for request in first.engine.scheduler.holders:
        handed = first.engine.hand_over(request)
        if _is_whole(handed):
            second.engine.load(request.elsewhere(), handed)
    for request in second.engine.run():
        require_drawn_alone(backend, run.source.model, request, f"which goes on after {run.at} steps")


def _handed_over(backend: Backend, run: Move) -> tuple[Request, HandOver] | None:
    """Play the first engine; return the request that goes on and what it was handed over with, None for none."""
    play, watched = play_that_loads(run.source, backend)
    engine, asked = play.engine, play.requests
    ended: list[tuple[Request, HandOver]] = []

    def leave(name: str, holding: Holding) -> None:
        request = next(one for one in asked if one.holding is holding)
        if run.is_ended and name == "release_finished" and request is asked[run.number]:
            longer = (*request.fill, *((token + 1) % 3 for token in range(LONGER)))
            ended.append((Request(request.request_id, longer, 6), engine.hand_over(request)))

    watched.leave = leave
    for step, _ in enumerate(play.turns()):
        for request in () if run.is_ended or step < run.at else _movers(engine, run.number):
            taken = engine.hand_over(request)
            if _is_whole(taken):
                moved = request.elsewhere()
                for _ in range(run.lag):
                    engine.step()
                return moved, taken
    return ended[0] if ended and _is_whole(ended[0][1]) else None


def _movers(engine: Engine, number: int) -> list[Request]:
    """Return who may go on elsewhere, that of a number first."""
    return sorted(engine.scheduler.holders, key=lambda one: one.request_id != number)


def _is_whole(handed: HandOver) -> bool:
    """Return whether every cache has something; states of a request whose forward is on its way do not leave."""
    lengths, form = handed.lengths, handed.form
    has_states = lengths.states == lengths.target or not form.state_components
    return has_states and min(lengths.target, len(handed.text) - 1) > 0 and lengths.draft > 0


def _go_on(backend: Backend, run: Move, request: Request, handed: HandOver | None) -> HandOver | None:
    """Play the second engine to the end; return what a third one would get of the request, None if it is refused.

    Beside a prefix cache a window has to begin with a page. It may have passed what a draft lacks that the target has.
    """
    neighbour = run.neighbour(request.fill)
    arrivals = tuple(Arrival(tuple(one.prompt), one.max_new_tokens) for one in (request, neighbour))
    play, watched = play_that_loads(run.target.having(arrivals=arrivals), backend)
    engine = play.engine
    last: list[HandOver] = []

    def leave(name: str, holding: Holding) -> None:
        if holding is request.holding and name == "release_finished":
            last.append(engine.hand_over(request))

    watched.leave = leave
    engine.submit(neighbour)
    for _ in range(run.warm):
        engine.step()
    if handed is None:
        engine.submit(request)
    else:
        try:
            engine.load(request, handed)
        except SpecRejection as refusal:
            is_paged = run.target.schedule.has_prefix_cache and run.target.room.page_size > 1
            may = refusal.reason is Reason.UNMAPPED_SLOT and (is_paged or handed.lengths.draft < handed.lengths.target)
            require(may, f"refusal of {handed.lengths} of {len(handed.text)} tokens", refusal, "none")
            return None
    for _ in range(MOST_STEPS):
        if not engine.has_work:
            break
        engine.step()
        engine.scheduler.check_ledger()
    require(not engine.has_work, f"steps of {run.target.worker_name}", f"more than {MOST_STEPS}", "a tenth of them")
    return last[0]


def _require_alike(what: str, got: HandOver, expected: HandOver) -> None:
    """Raise AssertionError unless two engines stored the same of a text, as far as both have it."""
    require(got.text == expected.text, f"text of {what}", got.text, expected.text)
    num_states = {got.lengths.states, expected.lengths.states}
    start, end = max(got.window_start, expected.window_start), min(got.lengths.target, expected.lengths.target)
    for name in sorted(expected.contents):
        if name == "states" and (0 in num_states or len(num_states) > 1):
            continue
        for layer, pair in enumerate(zip(got.contents[name], expected.contents[name], strict=True)):
            rows = list(pair)
            if name == "swa_kv":
                rows = [
                    one[start - handed.window_start : end - handed.window_start]
                    for one, handed in zip(pair, (got, expected), strict=True)
                ]
            elif name != "states":
                rows = [one[: min(map(len, pair))] for one in pair]
            require_equal(f"{name}[{layer}] of {what}", *rows)


@composite
def moved_draws(draw: st.DrawFn) -> Move:
    """Draw requests whose drafts are compared with their target's draws, and two engines of any form."""
    source, other = draw(drawn_runs()), draw(drawn_runs())
    pages = [source.room.page_size, other.room.page_size]
    if max(pages) % min(pages):
        pages[0] = pages[1]
    target = source.having(
        sizes=other.config, is_v1=other.is_v1, page_size=pages[1], is_overlapped=other.schedule.is_overlapped
    )
    at = draw(st.integers(1, 3))
    return Move(source.having(page_size=pages[0]), target, at, number=0, lag=0, warm=0, is_ended=False)


PROPERTIES = states_of_runs(
    "loaded_engine",
    (a_text_goes_on_as_if_it_had_been_computed_there, loading_runs, OPERATIONS, ""),
    (a_window_goes_on_where_it_was_left, window_loads, OPERATIONS, ""),
    (states_go_on_after_the_tokens_that_they_have_read, recurrent_loads, OPERATIONS, ""),
    (a_sampled_text_goes_on_on_its_noise, moved_draws, (*OPERATIONS[:3], DRAW), "P10", {"plays": ()}),
    plays=OF_ENGINES,
)
