"""Laws of what leaves whole runs: after every step and at every end, committed text with what was written for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.config import SpecConfig
from specsim.conformance.backend import Backend
from specsim.counts import path_width
from specsim.properties.composite import composite
from specsim.properties.laws.checks import require, require_present, states_of_runs
from specsim.properties.memory.exported import Known, copied, require_committed
from specsim.properties.memory.strategy_committed import PAGE_SIZES
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.properties.runs.histories import VOCABULARY, models, tagged_pools
from specsim.properties.runs.scenario import Arrival, Scenario, scenario_of
from specsim.properties.runs.steps.numbered_runs import PATTERNS, PatternNumbers
from specsim.properties.runs.tags import check_tags_at, expected_tags, states_after
from specsim.properties.runs.transfers.laws_loaded import watched_play
from specsim.properties.runs.workers.laws_tokens import require_all_free
from specsim.properties.seeds import source_of
from specsim.simulation.engine import Engine
from specsim.simulation.memory import Export, ExportLengths, Holding, key_units
from specsim.simulation.models.ground_truth import greedy_decode
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.pool_kinds import KINDS_WITHOUT_KV, RECURRENT_KINDS, PoolKind
from specsim.simulation.requests import Request
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


OPERATIONS = ("export_text", "exportable_pages", "Exports")
"""What decides what leaves."""

Look = Callable[[Request], object]


class _Door:
    """A play whose requests are looked at after every step, and each before it gives up memory."""

    def __init__(self, backend: Backend, scenario: Scenario) -> None:
        self.backend = backend
        self.play, self.watched = watched_play(scenario, backend)
        self.engine, self.asked = self.play.engine, self.play.requests
        self.num_left = 0

    def turns(self, look: Look) -> Iterator[None]:
        """Run to the end; yield after each step whose requests have been looked at."""
        self.watched.leave = lambda name, holding: self._leave(look, holding)
        left: list[tuple[Request, int]] = []
        for _ in self.play.turns():
            self._report_last_chunk(left)
            for request in self.engine.scheduler.holders:
                look(request)
            scheduler = self.engine.scheduler
            in_prompt = [one for one in scheduler.holders if not any(one is other for other in scheduler.running)]
            left = [(one, one.num_fill - one.num_committed) for one in in_prompt]
            yield

    def _report_last_chunk(self, left: Sequence[tuple[Request, int]]) -> None:
        """Report a prompt of recurrent states of which one token was left before a step, and none is after it."""
        if self.play.scenario.model.target_pool in RECURRENT_KINDS:
            for request, num_left in left:
                if num_left == 1 and any(request is one for one in self.engine.scheduler.running):
                    reached(Condition.LAST_TOKEN)

    def _leave(self, look: Look, holding: Holding) -> None:
        self.num_left += 1
        look(next(one for one in self.asked if one.holding is holding))

    def export(self, request: Request) -> tuple[Export, dict[str, Any]]:
        """Return what may leave of a request, and copies of what lies there.

        Every slot has the tag of its token after the tokens before it; what rejected or unresolved rows wrote, and what
        no row wrote, is poison. Nothing that is committed, resolved and before the end is left out.
        """
        export, what = self.engine.export(request), f"request {request.request_id}"
        lengths = (len(export.tokens), len(export.slots))
        require(set(lengths) == {export.lengths.target}, f"tokens and slots of {what}", lengths, export.lengths.target)
        contents = copied(self.engine.worker, request.row, export.slots)
        self._check_kv(request, export, contents)
        memory, books = self.engine.scheduler.memory, request.holding.books
        num_ahead = memory.num_ahead if memory.has_pair_keys else 0
        known = Known(request.fill, written(self.engine, request), num_ahead, books.num_protected, memory.page_size)
        require_committed(what, export, known)
        slots = tuple(request.slots[: export.lengths.target])
        require(export.slots == slots, f"slots of {what} that leave", export.slots, slots)
        return export, contents

    def _check_kv(self, request: Request, export: Export, contents: dict[str, Any]) -> None:
        model = self.play.scenario.model
        if model.target_pool in KINDS_WITHOUT_KV or not request.row:
            return
        # NOTE: of a text that was cut the next token is gone; no target entry depends on it.
        expected = expected_tags(model, [*request.fill, 0])
        lengths = (export.lengths.target, export.lengths.draft)
        for name, tags, length in zip(tagged_pools(self.backend), expected, lengths, strict=False):
            entries = [buffer[:length] for buffer in contents[name]]
            check_tags_at(name, entries, request, [component[:length] for component in tags])


def written(engine: Engine, request: Request) -> ExportLengths:
    """Return what is written and resolved of a request; what is launched and not resolved may be anything.

    Of a request that decodes everything but its last token was fed.
    """
    late = [one for one in engine._in_flight if any(request is other for other in one.requests)]
    late = [one for one in late if request.num_retractions in one.num_retractions]
    chunks = [one for one in late if one.chunks is not None]
    fed = request.num_committed
    for one in chunks:
        place = next(place for place, other in enumerate(one.requests) if other is request)
        fed = min(fed, (one.chunks or ())[place].start)
    decoding = [one for one in engine.scheduler.running if one.finish is None]
    unanswered = engine.scheduler.unanswered
    if any(request is one for one in decoding) and not any(request is one for one in unanswered):
        require(fed == request.num_fill - 1, f"fed tokens of request {request.request_id}", fed, request.num_fill - 1)
    drafted = fed if request.num_caught_up is None else min(fed, request.num_caught_up)
    return ExportLengths(fed, drafted, 0 if late else fed)


def what_leaves_a_run_is_committed_text(backend: Backend, scenario: Scenario) -> None:
    """No slot that leaves has the tag of a draft, of a node that was rejected or cut off, or of another request.

    It has that of its own token after the tokens before it, in both caches, and so has every slot of the prefix cache
    under the keys of every text.
    """
    door = _Door(backend, scenario)

    for _ in door.turns(door.export):
        _check_cache(door)
    _check_cache(door)
    least = sum(bool(one.output) for one in door.asked)
    require(door.num_left >= least, "requests that were looked at when they left", door.num_left, f"at least {least}")


def _check_cache(door: _Door) -> None:
    """Check every slot that the prefix cache has under the text of a request."""
    memory = door.engine.scheduler.memory
    if memory.cache is None:
        return
    state = door.engine.worker.state()
    for request in door.asked:
        key = key_units(request.fill, memory.has_pair_keys, memory.num_ahead)
        slots = list(memory.cache.match(key).slots)
        tags = expected_tags(door.play.scenario.model, [*request.fill, 0])
        for name, of_pool in zip(tagged_pools(door.backend), tags, strict=False):
            entries = [buffer[slots] for buffer in state[name]]
            check_tags_at(f"cached {name}", entries, request, [component[: len(slots)] for component in of_pool])


def states_leave_after_the_tokens_that_they_have_read(backend: Backend, scenario: Scenario) -> None:
    """States leave with the length that they have: not rounded to a page, and not after an end that was cut off."""
    door = _Door(backend, scenario)
    model = door.play.scenario.model

    def look(request: Request) -> None:
        export, contents = door.export(request)
        if not export.lengths.states:
            return
        text = export.tokens[: export.lengths.states]
        for component, (got, wanted) in enumerate(zip(contents["states"], states_after(model, text), strict=True)):
            what = f"states[{component}] of request {request.request_id} after {len(text)} tokens"
            require(got.tolist() == wanted, what, got.tolist(), wanted)

    for _ in door.turns(look):
        pass


class _Transfers:
    """What is on its way out of an engine, and what it looked like when it left."""

    def __init__(self, door: _Door, lag: int) -> None:
        self.door, self.lag, self.step = door, lag, 0
        self.under_way: dict[int, tuple[int, tuple[int, ...], dict[str, Any]]] = {}

    def begin(self, request: Request) -> None:
        """Let the pages of a request leave that have not left; the list of those that have is that of its text."""
        (export, _), memory = self.door.export(request), self.door.engine.scheduler.memory
        exports = require_present("exports of the memory", memory.exports)
        transfer = exports.begin(request.request_id, export)
        got, pages = exports.left_of(request.request_id), export.slots[: export.num_pages * memory.page_size]
        require(got == pages, f"pages of request {request.request_id} that have left", got, pages)
        contents = copied(self.door.engine.worker, request.row, transfer.slots) if transfer.slots else {}
        self.under_way[transfer.number] = (self.step + self.lag, transfer.slots, contents)

    def check(self) -> None:
        """Raise AssertionError unless pages on their way are owned and as they were; let those arrive that are due."""
        memory = self.door.engine.scheduler.memory
        free = set(memory.allocator.free_pages)
        state = self.door.engine.worker.state()
        for number, (due, slots, contents) in list(self.under_way.items()):
            freed = sorted({slot // memory.page_size for slot in slots} & free)
            require(not freed, f"pages of transfer {number} that are free", freed, "none")
            for name in tagged_pools(self.door.backend) if slots else ():
                now = [buffer[list(slots)].tolist() for buffer in state[name]]
                before = [buffer.tolist() for buffer in contents[name]]
                require(now == before, f"{name} of transfer {number} while it runs", now, before)
            if due <= self.step:
                memory.end_export(number)
                del self.under_way[number]
        self.step += 1


def pages_on_their_way_are_neither_freed_nor_written(backend: Backend, scenario: Scenario) -> None:
    """Until it has arrived, a page keeps its owner and what it had when it left, whatever becomes of its request.

    Pages leave once; those of a text that went back are taken from the list. When all have arrived, nothing is lost.
    """
    door = _Door(backend, scenario)
    transfers = _Transfers(door, scenario.course.lag)
    for _ in door.turns(transfers.begin):
        door.engine.scheduler.check_ledger()
        transfers.check()
    while transfers.under_way:
        transfers.check()
    door.engine.scheduler.check_ledger()
    require_all_free(door.engine)


_TAGS = tags_of(Condition.LAST_TOKEN)

PROPERTIES = states_of_runs(
    "committed_engine",
    (what_leaves_a_run_is_committed_text, exporting_runs, OPERATIONS[:2], ""),
    (states_leave_after_the_tokens_that_they_have_read, recurrent_exports, OPERATIONS[:2], "", {"tags": _TAGS}),
    (pages_on_their_way_are_neither_freed_nor_written, transferring_runs, OPERATIONS, ""),
)
