"""What must hold inside an event: windows and scratch are the request's own, and results count exactly once."""

from collections.abc import Sequence

import numpy as np

from specsim.assertion import require
from specsim.counts import floor_to
from specsim.host.stopping import FinishReason
from specsim.properties.laws.checks import require_same
from specsim.properties.suite.small_scopes.device import Slots, TagDevice, Verified
from specsim.properties.suite.small_scopes.state import State, World
from specsim.properties.suite.small_scopes.twins import cached_texts, known_cache
from specsim.simulation.memory import Books
from specsim.simulation.memory.keys import num_key_units
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.turns.launches import Launched
from specsim.simulation.worker import Iteration


def check_chunks(world: World, chunks: Sequence[PromptChunk]) -> None:
    """Raise AssertionError unless prompts run whole, or in whole pages."""
    size, budget = world.scope.page_size, world.schedule.prefill_chunk
    for chunk in chunks:
        if chunk.next_token is not None:
            require(budget is not None, "end of a prompt that runs whole", chunk.end, len(chunk.prompt))
            require(chunk.end % size == 0, "end of a chunk", chunk.end, f"a multiple of {size}")


def check_draft(world: World, running: Sequence[Request], device: TagDevice, drafted: Slots) -> None:
    """Raise AssertionError unless a draft wrote scratch of its own batch, no further than is reserved."""
    room = world.operations.host("alloc_len_per_decode")(world.sizes, world.scope.page_size)
    own: set[int] = set()
    for request in running:
        length = device.carried[request.row][1]
        own.update(request.slots[length : length + room])
    foreign = sorted(set(drafted.tolist()) - own)
    require(not foreign, "slots that a draft writes outside the reserve", foreign, "none")


def check_reserve(world: World, running: Sequence[Request], before: Sequence[Books]) -> None:
    """Raise AssertionError unless what two iterations may touch is allocated, and as much as is said."""
    size = world.scope.page_size
    room = world.operations.host("alloc_len_per_decode")(world.sizes, size)
    nodes = world.sizes.num_draft_tokens
    require(nodes <= room, "positions that are reserved for an iteration", room, f"at least {nodes}")
    next_length = world.operations.host("next_allocated_length")
    for request, books in zip(running, before, strict=True):
        what, got = f"allocated length of request {request.request_id}", request.holding.books.num_allocated
        require_same(what, got, next_length(books.num_committed, books.num_allocated, world.sizes, size))
        require(got % size == 0, what, got, "whole pages")
        least = books.num_committed + 2 * room
        require(got >= least, what, got, f"at least {least}")
        kept = next_length(books.num_committed, got + size, world.sizes, size)
        require_same(f"{what} that had a page more", kept, got + size)


def check_window(running: Sequence[Request], verified: Verified) -> None:
    """Raise AssertionError unless every verify writes its request's own slots."""
    windows = np.split(verified.windows, len(running))
    for request, start, window in zip(running, verified.seq_lens.tolist(), windows, strict=True):
        own = request.slots[start : start + len(window)]
        what = f"slots of the verify window of request {request.request_id}"
        require_same(what, window.tolist(), own)


def check_demand(world: World, books: Sequence[Books], num_taken: int) -> None:
    """Raise AssertionError unless a batch took what was said that it needs; V1 may take less."""
    demand = world.operations.host("new_tokens_required_next_decode")
    got: int = demand(books, world.sizes, world.scope.page_size)
    is_right = got >= num_taken if world.scope.is_v1 else got == num_taken
    require(is_right, "slots that a decode needs", got, num_taken)


def check_left(state: State, request: Request, before: Books) -> None:
    """Raise AssertionError unless a request that ended has left to the cache all that both pools have of its text."""
    cache, finish = known_cache(state.scheduler.memory.cache), request.finish
    if cache is None or finish is None:
        return
    num_owned = before.num_committed if request.num_caught_up is None else request.num_caught_up
    if finish.reason is not FinishReason.ABORT:
        num_owned = min(num_owned, len(request.prompt) + finish.num_tokens)
    num_kept = floor_to(num_key_units(num_owned, has_pair_keys=True), cache.page_size)
    front = list(request.fill[: num_kept + 1])
    is_cached = num_kept == 0 or any(tokens[: num_kept + 1] == front for tokens, _ in cached_texts(cache))
    require(is_cached, f"what request {request.request_id} left to the cache", "less", f"{num_kept} positions")


def check_results(launched: Launched, iteration: Iteration, before: Sequence[tuple[Request, Books, bool]]) -> None:
    """Raise AssertionError unless a result was committed for those whom it concerns, and for no one else."""
    counts = iteration.num_accepted_tokens.tolist()
    for (request, books, has_ended), at_launch, count in zip(before, launched.num_retractions, counts, strict=True):
        expected = books.resolve(count, at_launch, has_ended)
        require_same(f"books of request {request.request_id} after a result", request.holding.books, expected)
