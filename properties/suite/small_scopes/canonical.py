"""States that differ in names alone are one state: slots, pages and rows have none, and requests may change theirs."""

import hashlib
import marshal
from typing import Any

from specsim.properties.suite.small_scopes.scopes import NUM_REQUESTS
from specsim.properties.suite.small_scopes.state import InFlight, State, World
from specsim.properties.suite.small_scopes.twins import known_cache
from specsim.simulation.memory import RadixCache
from specsim.simulation.memory.radix_node import RadixNode
from specsim.simulation.requests import Request
from specsim.simulation.worker import Iteration

Names = tuple[int, ...]
_KEPT, _SWAPPED = tuple(range(NUM_REQUESTS)), tuple(reversed(range(NUM_REQUESTS)))
DIGEST = 12


def canonical(world: World, state: State) -> bytes:
    """Return the same for states that differ in names alone.

    What is free is like anything else that is free: nothing reads it, and its order shows in names only. Lengths say
    which positions a request owns, so that slots need not be listed. Counts of retractions matter to results in flight
    alone, and times of use in the prefix cache by their order alone.
    """
    first = _first_named(state)
    ways = (_KEPT, _SWAPPED) if first is None else (_KEPT if first == 0 else _SWAPPED,)
    return hashlib.blake2b(min(_form(world, state, names) for names in ways), digest_size=DIGEST).digest()


def _first_named(state: State) -> int | None:
    """Return the first live request, if there is one; what is cached has no order."""
    return next((request.request_id for request in state.live), None)


def _form(world: World, state: State, names: Names) -> bytes:
    scheduler, cache = state.scheduler, known_cache(state.scheduler.memory.cache)
    unanswered = {id(request) for request in scheduler.unanswered}
    form = (
        tuple(_holder(state, request, id(request) in unanswered, names) for request in scheduler.running),
        () if scheduler.mid_prompt is None else _holder(state, scheduler.mid_prompt, True, names),
        tuple(_asked(request, names) for request in scheduler.waiting),
        tuple(_launch(launch, names, state) for launch in state.in_flight),
        () if cache is None else _cache(world, cache, names),
    )
    # NOTE: version 2 writes no references, which would tell equal objects from the same one.
    return marshal.dumps(form, 2)


def _asked(request: Request, names: Names) -> tuple[Any, ...]:
    stop = len(request.stop_tokens) and request.stop_tokens[0] % 100
    return names[request.request_id], stop, len(request.output), request.is_aborted


def _holder(state: State, request: Request, is_unanswered: bool, names: Names) -> tuple[Any, ...]:
    books = request.holding.books
    lengths = (books.num_protected, books.num_committed, books.num_allocated)
    return *_asked(request, names), is_unanswered, *lengths, state.device.carried[request.row][1]


def _launch(launch: InFlight, names: Names, state: State) -> tuple[Any, ...]:
    """Return whom a launch still concerns, and how; of a result that is late, nothing but that there is one."""
    launched, result = launch.launched, launch.result
    live = {id(request) for request in state.live}
    ends = [0] * len(launched.requests) if launched.chunks is None else [one.end for one in launched.chunks]
    counts = result.num_accepted_tokens.tolist() if isinstance(result, Iteration) else ends
    return tuple(
        (names[one.request_id], count, end)
        for one, at_launch, count, end in zip(launched.requests, launched.num_retractions, counts, ends, strict=True)
        if id(one) in live and at_launch == one.num_retractions
    )


def _cache(world: World, cache: RadixCache, names: Names) -> tuple[Any, ...]:
    nodes = list(cache.root.descendants())
    times = {time: place for place, time in enumerate(sorted({node.last_used for node in nodes}))}

    def form(node: RadixNode) -> tuple[Any, ...]:
        units = tuple(world.texts.named(token, names) for unit in node.units for token in _tokens(unit))
        after = tuple(sorted(form(child) for child in node.children.values()))
        return units, node.num_locks, times[node.last_used], after

    return tuple(sorted(form(node) for node in cache.root.children.values()))


def _tokens(unit: Any) -> tuple[int, ...]:
    return unit if isinstance(unit, tuple) else (unit,)
