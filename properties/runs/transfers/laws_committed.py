"""Laws of what leaves whole runs: after every step and at every end, committed text with what was written for it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import require, require_present, state_of_runs
from specsim.properties.memory.exported import Known, Watched, copied, require_committed
from specsim.properties.reach.conditions import Condition, tags_of
from specsim.properties.reach.counting import reached
from specsim.properties.runs.histories import tagged_pools
from specsim.properties.runs.play import Play, parts_of
from specsim.properties.runs.scenario import Scenario
from specsim.properties.runs.transfers.exporting_runs import exporting_runs, recurrent_exports, transferring_runs
from specsim.properties.runs.workers.laws_state import check_tags_at, expected_tags, states_after
from specsim.properties.runs.workers.laws_tokens import require_all_free
from specsim.rejection import WorkerRefusal
from specsim.simulation.engine import Engine
from specsim.simulation.memory import Export, ExportLengths, Holding, key_units
from specsim.simulation.models.pool_kinds import KINDS_WITHOUT_KV, RECURRENT_KINDS
from specsim.simulation.requests import Request

OPERATIONS = ("export_text", "exportable_pages", "Exports")
"""What decides what leaves."""

Look = Callable[[Request], object]


class _Door:
    """A play whose requests are looked at after every step, and each before it gives up memory.

    A worker that has one number of drafts for all requests gets that of its configuration.
    """

    def __init__(self, backend: Backend, scenario: Scenario) -> None:
        self.backend, self.watched = backend, Watched(parts_of(backend))
        try:
            self.play = Play(scenario, backend, operations=self.watched, has_own_scheduler=True)
        except WorkerRefusal:
            in_step = scenario.having(num_drafts=None)
            self.play = Play(in_step, backend, operations=self.watched, has_own_scheduler=True)
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


def _of_runs(
    law: Callable[[Backend, Any], None], strategy: Callable[[], Any], operations: Sequence[str], **options: Any
) -> Any:
    return state_of_runs("committed_engine", law, strategy, operations, **options)


PROPERTIES = (
    _of_runs(what_leaves_a_run_is_committed_text, exporting_runs, OPERATIONS[:2]),
    _of_runs(
        states_leave_after_the_tokens_that_they_have_read,
        recurrent_exports,
        OPERATIONS[:2],
        tags=tags_of(Condition.LAST_TOKEN),
    ),
    _of_runs(pages_on_their_way_are_neither_freed_nor_written, transferring_runs, OPERATIONS),
)
