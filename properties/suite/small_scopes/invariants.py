"""What must hold in every state."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from specsim.assertion import require
from specsim.counts import ceil_to, floor_to
from specsim.host.stopping import FinishReason
from specsim.properties.laws.checks import require_same
from specsim.properties.suite.small_scopes.probes import probe
from specsim.properties.suite.small_scopes.state import State, World
from specsim.properties.suite.small_scopes.texts import Tags
from specsim.properties.suite.small_scopes.twins import cached_texts, known_cache, known_node
from specsim.simulation.memory import Holding, Ledger, RadixCache
from specsim.simulation.pools import check_texts
from specsim.simulation.requests import Request


def check(world: World, state: State) -> None:
    """Raise AssertionError where something does not hold.

    Every page and row has one owner, and lengths are in order; the map says what the host says; every position of text
    holds its own tag in both pools, and so does all that is cached, which is therefore no rejected token; outputs are
    what the target says, and end where they should; what a release would free is what no one else keeps.
    """
    scheduler = state.scheduler
    holdings: dict[Hashable, Holding] = {request.request_id: request.holding for request in scheduler.holders}
    Ledger(scheduler.memory).check(holdings)
    in_prefill = [*scheduler.unanswered, *([] if scheduler.mid_prompt is None else [scheduler.mid_prompt])]
    check_texts(scheduler.holders, in_prefill, scheduler.allocates_ahead)
    rows = scheduler.memory.rows
    require_same("free rows", rows.num_free, len(state.free_rows))
    for request in state.live:
        _check_output(world, request)
    for request in scheduler.waiting:
        books, slots = request.holding.books, request.slots
        lengths = (books.row, books.num_protected, books.num_committed, books.num_allocated, len(slots))
        require(not any(lengths), f"row, lengths and slots of request {request.request_id}, which waits", lengths, 0)
    for request in scheduler.finished:
        _check_output(world, request)
        _check_end(world, request)
    for request in scheduler.holders:
        _check_contents(world, state, request)
        _check_release(world, request)
    cache = known_cache(scheduler.memory.cache)
    if cache is not None:
        _check_cache(world, state, cache)
    probe(state)


def settle(world: World, state: State) -> None:
    """Forget what no later event may depend on: requests that have ended, and slots that no one needs."""
    scheduler, device = state.scheduler, state.device
    scheduler.finished.clear()
    for request in state.live:
        request.counters = world.counters
    kept: list[int] = []
    lengths: dict[int, int] = {}
    for request in scheduler.holders:
        lengths[request.row] = len(request.slots)
        kept.extend(request.slots[: device.carried[request.row][1]])
    if scheduler.memory.cache is not None:
        kept.extend(scheduler.memory.cache.slots)
    device.forget_all_but(kept, lengths)


def _check_output(world: World, request: Request) -> None:
    text = world.texts.tokens[request.request_id]
    fill = request.fill
    require_same(f"text of request {request.request_id}", fill, text[: len(fill)])
    if request.finish is None:
        most, length = world.output_length(request), len(request.output)
        require(length < most, f"output tokens of request {request.request_id}, which goes on", length, f"below {most}")


def _check_end(world: World, request: Request) -> None:
    if request.finish is not None and request.finish.reason is not FinishReason.ABORT:
        most, length = world.output_length(request), len(request.output)
        require_same(f"output tokens of request {request.request_id}, which ended", length, most)


def _check_contents(world: World, state: State, request: Request) -> None:
    device, number, row = state.device, request.request_id, request.row
    slots = request.slots
    require_same(f"slots of request {number} in the map", device.req_to_token[row, : len(slots)].tolist(), slots)
    whose, length = device.carried.get(row, (None, 0))
    require_same(f"whose text row {row} decodes", whose, number)
    least = request.num_committed
    require(length >= least, f"length of request {number} on the device", length, f"at least {least}")
    if not state.in_flight:
        require_same(f"length of request {number} on the device", length, least)
    _check_tags(f"of request {number}", world, state, number, slots[:length])


def _check_tags(whose: str, world: World, state: State, number: int, slots: Sequence[int]) -> None:
    texts = world.texts
    pools = (("target", state.device.target, texts.target), ("draft", state.device.draft, texts.draft))
    for name, pool, tags in pools:
        _compare(f"{name} {whose}", pool[list(slots), 0], tags[number][: len(slots)])


def _compare(what: str, got: Tags, expected: Tags) -> None:
    if not np.array_equal(got, expected):
        position = int(np.argmax(got != expected))
        require(False, f"{what} at position {position}", _shown(int(got[position])), "its own tag")


def _shown(tag: int) -> str:
    marks = {-1: "what no one needs", -2: "a rejected token", -3: "scratch of a draft"}
    return marks.get(tag, "the tag of something else")


def _check_release(world: World, request: Request) -> None:
    """Compare what a release at this point is planned to free with what no one else keeps."""
    books, size = request.holding.books, world.scope.page_size
    late = books.resolve(1, books.num_retractions - 1, False)
    require_same(f"books of request {request.request_id} after a result from before", late, books)
    plan = world.operations.host("plan_release")(books, books.num_committed, size, True)
    num_key = floor_to(max(books.num_committed - 1, 0), size)
    scratch = (min(ceil_to(books.num_committed, size), books.num_allocated), books.num_allocated)
    got = (plan.num_protected, plan.num_key, plan.num_owned, plan.scratch)
    expected = (books.num_protected, num_key, books.num_committed, scratch)
    require_same(f"what request {request.request_id} would release", got, expected)


def _check_cache(world: World, state: State, cache: RadixCache) -> None:
    for tokens, slots in cached_texts(cache):
        owners = [number for number, text in enumerate(world.texts.tokens) if text[: len(tokens)] == tuple(tokens)]
        require(owners, "a cached text", tokens, "the front of a request's text")
        _check_tags(f"of the cached text {tokens}", world, state, owners[0], slots)
    fronts = [known_node(request.holding.node) for request in state.scheduler.holders]
    locks = Counter(id(node) for front in fronts if front is not None for node in front.path())
    for node in cache.root.descendants():
        require_same(f"locks of {node.units}", node.num_locks, locks[id(node)])
