"""What a result does to the requests that it was launched for, whenever it comes."""

from collections.abc import Sequence
from dataclasses import replace

from specsim.config import SpecConfig
from specsim.conformance.host_protocol import HostFunctions
from specsim.counts import path_width
from specsim.host.metrics import count_batch
from specsim.host.sampling import GREEDY
from specsim.host.stopping import FinishReason
from specsim.simulation.events import Observer, Tag
from specsim.simulation.launches import Launched
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.worker import Iteration

STOPS = {FinishReason.EOS, FinishReason.STOP_STRING, FinishReason.STOP_TOKEN}
LIMITS = {FinishReason.LENGTH, FinishReason.CONTEXT}


def late_requests(launched: Launched, operations: HostFunctions) -> list[bool]:
    """Return which requests of a launch its result no longer concerns.

    Notes
    -----
    Source: semantics I.3.
    """
    return [
        operations.is_late(at_launch, request.num_retractions, request.finish is not None)
        for request, at_launch in zip(launched.requests, launched.num_retractions, strict=True)
    ]


def resolve_prefill(
    launched: Launched, following: Sequence[int], operations: HostFunctions, observer: Observer
) -> list[tuple[Request, PromptChunk]]:
    """Append the token behind each prompt that is through, and return whom the result reaches, with their chunks.

    The token behind a chunk that does not end its prompt is nobody's.

    Notes
    -----
    Source: semantics I.8, J.0.
    """
    reached = []
    rows = zip(launched.requests, launched.chunks or (), following, late_requests(launched, operations), strict=True)
    for request, chunk, token, is_late in rows:
        if is_late:
            _tell_late(request, observer)
            continue
        reached.append((request, chunk))
        if chunk.next_token is None:
            request.append([token])
            _tell_end(request, observer)
    return reached


def resolve_iteration(launched: Launched, iteration: Iteration, operations: HostFunctions, observer: Observer) -> None:
    """Commit and append what a V2 iteration accepted.

    Everything that was accepted is committed, except behind the end of a grammar.

    Notes
    -----
    Source: semantics I.3.
    """
    requests, late = launched.requests, late_requests(launched, operations)
    batch = count_batch([one.counters for one in requests], iteration.num_accepted_drafts.tolist(), late)
    for place, request in enumerate(requests):
        if late[place]:
            _tell_late(request, observer)
            continue
        num_tokens = int(iteration.num_accepted_tokens[place])
        before = len(request.output)
        request.counters = batch.requests[place]
        request.append(iteration.tokens[place, :num_tokens].tolist())
        is_cut = request.finish_reason is FinishReason.GRAMMAR
        kept = len(request.output) - before if is_cut else num_tokens
        request.holding.books = request.holding.books.commit(kept)
        _tell_end(request, observer)


def tell_iteration(iteration: Iteration, num_steps: int, is_tree: bool, observer: Observer) -> None:
    """Tell an observer what an iteration was like."""
    drafts = iteration.num_accepted_drafts.tolist()
    has_room = iteration.tokens.shape[1] >= path_width(num_steps)
    for tag, is_so in (
        (Tag.ACCEPTED, any(drafts)),
        (Tag.ZERO, 0 in drafts),
        (Tag.REJECTED, any(0 < count < num_steps for count in drafts)),
        (Tag.FULL, has_room and num_steps in drafts),
        (Tag.BATCH, len(drafts) > 1),
        (Tag.RAGGED, len(set(drafts)) > 1),
        (Tag.TREE, is_tree),
        (Tag.STEPS, num_steps > 1),
    ):
        if is_so:
            observer(tag)


def tell_batch(launched: Launched, config: SpecConfig, page_size: int, observer: Observer) -> None:
    """Tell an observer what the requests of an iteration asked for."""
    sampled = [one.sampling for one in launched.requests if one.sampling is not None and not one.is_greedy]
    for tag, is_so in (
        (Tag.PAGES, page_size > 1),
        (Tag.SAMPLED, bool(sampled)),
        (Tag.FILTERED, any(replace(GREEDY, temperature=one.temperature, seed=one.seed) != one for one in sampled)),
        (Tag.DYNAMIC, launched.num_steps not in (None, config.num_steps)),
        (Tag.ROUNDS, any(one.counters.num_verifies > 1 for one in launched.requests)),
    ):
        if is_so:
            observer(tag)


def _tell_late(request: Request, observer: Observer) -> None:
    observer(Tag.LATE if request.finish is None else Tag.ZOMBIE)


def _tell_end(request: Request, observer: Observer) -> None:
    if request.finish_reason in STOPS:
        observer(Tag.STOP)
    elif request.finish_reason in LIMITS:
        observer(Tag.LIMIT)
    elif request.finish_reason is FinishReason.GRAMMAR:
        observer(Tag.GRAMMAR)
