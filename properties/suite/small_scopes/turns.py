"""What an event does: the turns of an engine, one at a time, around the real scheduler."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require, require_kind
from specsim.config import SpecConfig
from specsim.counts import count_tokens
from specsim.properties.laws.checks import require_same
from specsim.properties.suite.small_scopes import reserve
from specsim.properties.suite.small_scopes.device import Verified
from specsim.properties.suite.small_scopes.events import Event
from specsim.properties.suite.small_scopes.reclaim import reclaim
from specsim.properties.suite.small_scopes.room import Room, num_obtainable
from specsim.properties.suite.small_scopes.scopes import AT_REST
from specsim.properties.suite.small_scopes.state import TICKET, InFlight, State, World
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.turns.launches import Launched
from specsim.simulation.turns.results import resolve_iteration, resolve_prefill
from specsim.simulation.worker import Iteration


def happen(world: World, state: State, event: Event) -> None:
    """Change a state by an event; a decode has to have begun.

    Raises
    ------
    AssertionError, SpecRejection
        Something is wrong.
    """
    _TURNS[event.kind](world, state, event)


def _admit(world: World, state: State, event: Event) -> None:
    """Queue a request; the pools of small scopes are smaller than what ``submit`` asks for."""
    state.scheduler.waiting.append(world.request(event.request, event.length))


def _abort(world: World, state: State, event: Event) -> None:
    state.scheduler.abort(event.request)


def _retract(world: World, state: State, event: Event) -> None:
    (request,) = (one for one in state.scheduler.holders if one.request_id == event.request)
    _leave_in_turn(state, [request], lambda: state.scheduler.retract(request))
    _require_queued(state.scheduler, [request])


def _resolve(world: World, state: State, event: Event) -> None:
    _resolve_down_to(world, state, 0)


def _prefill(world: World, state: State, event: Event) -> None:
    scheduler, device, texts = state.scheduler, state.device, world.texts
    batch = scheduler.next_prefill()
    if batch is None:
        return
    rows = [request.row for request in batch.joining]
    world.events["resume"] += sum(bool(request.output) for request in batch.joining)
    require_same("rows of joining requests", rows, state.free_rows[: len(rows)])
    del state.free_rows[: len(rows)]
    reserve.check_chunks(world, batch.chunks)
    device.assign(batch.ranges, world.operations)
    following = []
    for request, chunk in zip(batch.requests, batch.chunks, strict=True):
        text = texts.tokens[request.request_id]
        device.prefill(request.row, request.request_id, chunk.start, chunk.end, texts)
        following.append(text[chunk.end])
    _launch(world, state, batch.requests, following, batch.chunks)


def begin_decode(world: World, state: State, config: SpecConfig) -> None:
    """Bring a decode to where its verification comes out: make room, allocate, draft.

    Raises
    ------
    AssertionError, SpecRejection
        Something is wrong.
    """
    scheduler, device, operations = state.scheduler, state.device, world.operations
    before = len(scheduler.finished)
    rows = {request.request_id: request.row for request in scheduler.holders}
    room = Room.of(world, scheduler)
    given_back = scheduler.retract_for_decode()
    _require_queued(scheduler, given_back)
    ended = scheduler.finished[before:]
    room.check(world, scheduler, given_back, ended)
    left = [*given_back, *ended]
    state.free_rows.extend(rows[request.request_id] for request in left)
    running = scheduler.running
    if not running:
        return
    if world.scope.is_v1:
        ledger = IterationLedger(scheduler)
        num_free = scheduler.slots.num_free
        device.assign(ledger.borrow_draft_slots(config.topk, config.num_steps), operations)
        if config.num_steps:
            device.draft_tree(_rows(running), config, world.scope.page_size, operations)
        device.assign(ledger.allocate_verify_slots(config.num_draft_tokens), operations)
        reserve.check_demand(world, [request.holding.books for request in running], num_free - scheduler.slots.num_free)
        return
    books = [request.holding.books for request in running]
    num_free = num_obtainable(scheduler)
    device.assign(scheduler.prepare_for_decode(), operations)
    reserve.check_demand(world, books, num_free - num_obtainable(scheduler))
    reserve.check_reserve(world, running, books)
    if config.num_steps:
        drafted = device.draft_tree(_rows(running), config, world.scope.page_size, operations)
        reserve.check_draft(world, running, device, drafted)


def _decode(world: World, state: State, event: Event) -> None:
    """Go on with a decode that has begun."""
    running = state.scheduler.running
    if not running:
        return
    config = AT_REST if event.rests else world.scope.config
    windows = state.device.verify(_rows(running), event.paths, config, world.texts, world.operations)
    (_verify_v1 if world.scope.is_v1 else _verify_v2)(world, state, windows)


def _verify_v2(world: World, state: State, verified: Verified) -> None:
    device, config, running = state.device, world.scope.config, state.scheduler.running
    reserve.check_window(running, verified)
    if config.topk > 1:
        device.compact(verified, config.num_steps, world.operations)
    iteration = _iteration(world, running, verified)
    counts, windows = iteration.num_accepted_tokens.tolist(), np.split(verified.windows, len(running))
    for request, count, slots in zip(running, counts, windows, strict=True):
        device.extend(request.row, count, slots, world.texts)
    _launch(world, state, tuple(running), iteration)


def _verify_v1(world: World, state: State, verified: Verified) -> None:
    device, operations, running = state.device, world.operations, list(state.scheduler.running)
    ledger = IterationLedger(state.scheduler)
    truncate = operations.host("truncate_at_stop")
    truncation = ledger.end_requests(verified.accept_index, _predict(world, running, verified), truncate)
    paths, counts = truncation.accept_index, truncation.batch_num_accepted_drafts
    slots = reclaim(device, verified, _rows(running), paths, counts, world.scope, ledger.free, operations)
    kept = np.split(slots, np.cumsum(count_tokens(counts)))[: len(running)]
    ledger.commit([slots.tolist() for slots in kept])
    for request, slots in zip(running, kept, strict=True):
        if request.finish is None:
            device.extend(request.row, len(slots), slots, world.texts)
    _finish(state)


def _require_queued(scheduler: Scheduler, retracted: Sequence[Request]) -> None:
    """Raise AssertionError unless requests that were retracted wait to come again, or have ended since."""
    for request in retracted:
        is_there = any(one is request for one in (*scheduler.waiting, *scheduler.finished))
        require(is_there, f"retracted request {request.request_id}", "gone", "in the queue")


def _rows(running: Sequence[Request]) -> list[int]:
    return [request.row for request in running]


def _predict(world: World, running: Sequence[Request], verified: Verified) -> NDArray[np.int32]:
    """Return int32 [node_total], the token after each accepted node."""
    predict = np.zeros(len(verified.windows), dtype=np.int32)
    for request, length, path in zip(running, verified.seq_lens.tolist(), verified.accept_index, strict=True):
        nodes = path[path >= 0]
        after = world.texts.tokens[request.request_id][length + 1 :]
        predict[nodes] = after[: len(nodes)]
    return predict


def _iteration(world: World, running: Sequence[Request], verified: Verified) -> Iteration:
    tokens = np.zeros((len(running), len(verified.windows) // len(running)), dtype=np.int32)
    predict = _predict(world, running, verified)
    for place, path in enumerate(verified.accept_index):
        nodes = path[path >= 0]
        tokens[place, : len(nodes)] = predict[nodes]
    drafts = (verified.accept_index[:, 1:] >= 0).sum(axis=1, dtype=np.int32)
    return Iteration(tokens, drafts, count_tokens(drafts))


def _launch(
    world: World,
    state: State,
    requests: tuple[Request, ...],
    result: Iteration | list[int],
    chunks: tuple[PromptChunk, ...] | None = None,
) -> None:
    """Put a launch after those that are in flight, and resolve what the host then knows."""
    counts = tuple(request.num_retractions for request in requests)
    state.in_flight.append(InFlight(Launched(requests, counts, TICKET, chunks), result))
    _resolve_down_to(world, state, 1 if world.schedule.is_overlapped else 0)


def _resolve_down_to(world: World, state: State, num_left: int) -> None:
    while len(state.in_flight) > num_left:
        first = state.in_flight.pop(0)
        if first.launched.chunks is None:
            _resolve_iteration(world, first.launched, require_kind("an iteration", first.result, Iteration))
        else:
            _resolve_prefill(world, state, first.launched, require_kind("a prefill", first.result, list))
        _finish(state)


def _resolve_iteration(world: World, launched: Launched, iteration: Iteration) -> None:
    before = [(one, one.holding.books, one.finish is not None) for one in launched.requests]
    resolve_iteration(launched, iteration, world.operations, world.reach)
    reserve.check_results(launched, iteration, before)


def _resolve_prefill(world: World, state: State, launched: Launched, following: Sequence[int]) -> None:
    reached = resolve_prefill(launched, following, world.operations, world.reach)
    ranges = [state.scheduler.publish(request, chunk.end) for request, chunk in reached]
    state.device.assign([given for given in ranges if given.slots], world.operations)
    state.scheduler.answered([request for request, chunk in reached if chunk.next_token is None])


def _finish(state: State) -> None:
    ended = [request for request in state.scheduler.running if request.finish is not None]
    books = [request.holding.books for request in ended]
    _leave_in_turn(state, ended, state.scheduler.finish)
    for request, before in zip(ended, books, strict=True):
        reserve.check_left(state, request, before)


def _leave_in_turn(state: State, requests: Sequence[Request], leave: Callable[[], object]) -> None:
    """Let some requests leave, and note the order in which their rows come back."""
    rows = [request.row for request in requests]
    leave()
    state.free_rows.extend(rows)


_TURNS: dict[str, Callable[[World, State, Event], None]] = {
    "admit": _admit,
    "prefill": _prefill,
    "decode": _decode,
    "resolve": _resolve,
    "retract": _retract,
    "abort": _abort,
}
