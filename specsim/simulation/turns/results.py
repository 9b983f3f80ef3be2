"""What a result does to the requests that it was launched for, whenever it comes."""

from collections.abc import Sequence

from specsim.conformance.host_protocol import HostFunctions
from specsim.host.metrics import count_batch
from specsim.host.stopping import FinishReason
from specsim.simulation.events import Observer, Tag
from specsim.simulation.logprobs import ReportedToken
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.turns.launches import Launched
from specsim.simulation.worker import Iteration


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
    """Append the token after each prompt that is through, and return whom the result reaches, with their chunks.

    The token after a chunk that does not end its prompt is no request's.

    Notes
    -----
    Source: semantics I.8, J.0.
    """
    reached = []
    late, reported = late_requests(launched, operations), reported_by(launched)
    rows = zip(launched.requests, launched.chunks or (), following, late, reported, strict=True)
    for request, chunk, token, is_late, about in rows:
        if is_late:
            _tell_late(request, observer)
            continue
        reached.append((request, chunk))
        if chunk.next_token is None:
            request.append([token], operations.append_run, operations.advance_grammar)
            request.tell(about)
    return reached


def resolve_iteration(launched: Launched, iteration: Iteration, operations: HostFunctions, observer: Observer) -> None:
    """Commit and append what a V2 iteration accepted.

    Everything that was accepted is committed, except after the end of a grammar.

    Notes
    -----
    Source: semantics I.3.
    """
    requests, late, reported = launched.requests, late_requests(launched, operations), reported_by(launched)
    batch = count_batch([one.counters for one in requests], iteration.num_accepted_drafts.tolist(), late)
    for place, request in enumerate(requests):
        if late[place]:
            _tell_late(request, observer)
            continue
        num_tokens = int(iteration.num_accepted_tokens[place])
        before = len(request.output)
        request.counters = batch.requests[place]
        tokens = iteration.tokens[place, :num_tokens].tolist()
        request.append(tokens, operations.append_run, operations.advance_grammar)
        request.tell(reported[place])
        is_cut = request.finish_reason is FinishReason.GRAMMAR
        kept = len(request.output) - before if is_cut else num_tokens
        request.holding.books = request.holding.books.commit(kept)


def reported_by(launched: Launched) -> Sequence[Sequence[ReportedToken]]:
    """Return what the worker reported of each request of a launch; nothing if it reports nothing."""
    return launched.reported or [()] * len(launched.requests)


def _tell_late(request: Request, observer: Observer) -> None:
    observer(Tag.LATE if request.finish is None else Tag.ZOMBIE)
