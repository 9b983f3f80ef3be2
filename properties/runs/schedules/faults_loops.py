"""Faults that no operation and no part can have: in who schedules, and in the loop of a worker."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from specsim.host.stopping import FinishReason
from specsim.properties.mutants.record import Mutant, unchanged
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.requests import PrefillBatch, PromptChunk, Request
from specsim.simulation.scheduler import Scheduler


class OldRetractionScheduler(Scheduler):
    """Does not count retractions, so that results from before them count."""

    def retract(self, request: Request) -> None:
        """Take slots and row, and leave the count."""
        super().retract(request)
        books = request.holding.books
        request.holding.books = replace(books, num_retractions=books.num_retractions - 1)


class LeakingScheduler(Scheduler):
    """Forgets the slots of requests that somebody ended."""

    def finish(self) -> list[Request]:
        """Release every request that has ended, the last slot of aborted ones excepted."""
        for request in self.running:
            if request.finish_reason is FinishReason.ABORT:
                request.holding.slots.pop()
                books = request.holding.books
                request.holding.books = replace(books, num_allocated=len(request.holding.slots))
        return super().finish()


class RememberingScheduler(Scheduler):
    """Takes what was committed before a retraction for what is there after it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._remembered: dict[int, int] = {}

    def retract(self, request: Request) -> None:
        """Take slots and row, and remember the committed length."""
        self._remembered[request.request_id] = request.num_committed
        super().retract(request)

    def next_prefill(self) -> PrefillBatch | None:
        """Go on with prompts, after what is remembered of them."""
        batch = super().next_prefill()
        if batch is None:
            return None
        chunks = []
        for request, chunk in zip(batch.requests, batch.chunks, strict=True):
            known = min(self._remembered.pop(request.request_id, 0), chunk.end - 1)
            chunks.append(PromptChunk(chunk.prompt, max(chunk.start, known), chunk.end))
        return replace(batch, chunks=tuple(chunks))


class CuttingScheduler(Scheduler):
    """Takes each chunk for the end of its prompt."""

    def next_prefill(self) -> PrefillBatch | None:
        """Go on with prompts, and hide what comes after each chunk."""
        batch = super().next_prefill()
        if batch is None:
            return None
        chunks = tuple(PromptChunk(one.prompt[: one.end], one.start, one.end) for one in batch.chunks)
        return replace(batch, chunks=chunks)


class HastyScheduler(Scheduler):
    """Lets a window pass over a prompt that the prefix cache is still to have."""

    def _evict(self, request: Request) -> None:
        """Give SWA slots back as an engine without a cache does."""
        memory, self.memory = self.memory, replace(self.memory, cache=None)
        super()._evict(request)
        self.memory = memory


class DroppingScheduler(Scheduler):
    """Does not queue what it retracts."""

    def retract(self, request: Request) -> None:
        """Take slots and row, and forget the request."""
        super().retract(request)
        self.waiting.pop()


class StarvingScheduler(Scheduler):
    """Does not admit a request again that was retracted."""

    def _next_waiting(self) -> Request | None:
        """Return the first of the queue if it never ran."""
        request = super()._next_waiting()
        return None if request is None or request.num_retractions else request


class StaleRelayWorker(ReferenceWorker):
    """Starts the first draft in a row from where its owner before stopped."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts; the lengths of rows that were used are not written."""
        waiting: Any = self._waiting
        before = waiting.carried["seq_lens"].copy()
        following = super().prefill(rows, chunks)
        is_used = before > 0
        waiting.carried["seq_lens"][is_used] = before[is_used]
        return following


_SCHEDULERS: tuple[tuple[str, str, str, Callable[..., Scheduler]], ...] = (
    ("OWN-1190", "release_finished", "A slot of an aborted request is lost.", LeakingScheduler),
    ("OWN-1191", "allocate_chunk", "A retracted request keeps its committed length.", RememberingScheduler),
    ("OWN-1192", "release_retracted", "A retraction is not counted by who schedules.", OldRetractionScheduler),
    ("OWN-1193", "chunk_length", "The token after a chunk inside a prompt is output.", CuttingScheduler),
    ("OWN-1195", "evict_behind_window", "A prompt loses its window before the cache has it.", HastyScheduler),
    ("OWN-1196", "release_retracted", "A retracted request is not queued again.", DroppingScheduler),
    ("OWN-1197", "admit_request", "A retracted request is never admitted again.", StarvingScheduler),
)

MUTANTS = (
    *(Mutant(number, name, fault, unchanged, scheduler=kind) for number, name, fault, kind in _SCHEDULERS),
    Mutant(
        "OWN-1194",
        "assign_req_to_token_pool",
        "A row is used again with the length of its owner before.",
        unchanged,
        worker=StaleRelayWorker,
    ),
)
