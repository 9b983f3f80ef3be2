"""Faults of whole engines that the machine has to find: mutants, and others planted in who schedules or works."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specsim.host.stopping import FinishReason
from specsim.properties.mutants import all_mutants
from specsim.properties.soak.machine import Subject
from specsim.reference.worker.v2 import ReferenceWorker
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.scheduler import PrefillBatch, Scheduler

Plant = Callable[[Subject], Subject]


@dataclass(frozen=True)
class Fault:
    """Something that is wrong, in one sentence, and how it gets there."""

    name: str
    summary: str
    plant: Plant


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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._remembered: dict[int, int] = {}

    def retract(self, request: Request) -> None:
        """Take slots and row, and remember the committed length."""
        self._remembered[request.request_id] = request.num_committed
        super().retract(request)

    def next_prefill(self) -> PrefillBatch | None:
        """Go on with prompts, behind what is remembered of them."""
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
        """Go on with prompts, and hide what comes behind each chunk."""
        batch = super().next_prefill()
        if batch is None:
            return None
        chunks = tuple(PromptChunk(one.prompt[: one.end], one.start, one.end) for one in batch.chunks)
        return replace(batch, chunks=chunks)


class StaleRelayWorker(ReferenceWorker):
    """Starts the first draft in a row from where its owner before stopped."""

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts; the lengths of rows that were used are not written."""
        before = self._carried["seq_lens"].copy()
        following = super().prefill(rows, chunks)
        is_used = before > 0
        self._carried["seq_lens"][is_used] = before[is_used]
        return following


def _mutant(name: str) -> Plant:
    def plant(subject: Subject) -> Subject:
        (found,) = (mutant for mutant in all_mutants() if mutant.id == name)
        return replace(subject, backend=found.plant(subject.backend))

    return plant


def _scheduler(kind: type[Scheduler]) -> Plant:
    return lambda subject: replace(subject, make_scheduler=kind)


def _worker(kind: Callable[..., Any]) -> Plant:
    return lambda subject: replace(subject, backend=replace(subject.backend, worker=kind))


FAULTS = (
    Fault("leak", "The slots of an aborted request are lost.", _scheduler(LeakingScheduler)),
    Fault("old length", "A retracted request keeps its committed length.", _scheduler(RememberingScheduler)),
    Fault(
        "old count",
        "A retraction is not counted, so that results from before it count.",
        _scheduler(OldRetractionScheduler),
    ),
    Fault("old result", "A result reaches a request that was retracted since.", _mutant("S11")),
    Fault("zombie", "The tokens of a zombie are appended.", _mutant("OWN-603")),
    Fault("chunk", "The token behind a chunk inside a prompt is output.", _scheduler(CuttingScheduler)),
    Fault("stale relay", "A row is used again with the length of its owner before.", _worker(StaleRelayWorker)),
    Fault("late map", "A forward reads rows before they are written.", _mutant("OWN-610")),
    Fault("merge", "Hidden states of those that join come before those of the batch.", _mutant("OWN-207")),
    Fault("filter", "The first rows of a batch stay instead of those that go on.", _mutant("S03")),
)
