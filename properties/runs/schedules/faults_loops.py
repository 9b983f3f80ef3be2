"""Faults that no operation and no part can have: in who schedules, and in the loop of a worker."""

from specsim.conformance.backend import EAGLE_V2
from specsim.host.stopping import FinishReason
from specsim.properties.mutants.record import edits_of_loops, edits_of_scheduler

MUTANTS = (
    *edits_of_scheduler(
        """
        @@ release_finished in Scheduler.finish
        OWN-1190 A slot of an aborted request is lost.
          ended = [request for request in self.running if request.finish is not None]
        + for request in self.running:
        +     if request.finish_reason is FinishReason.ABORT:
        +         holding = request.holding
        +         holding.slots.pop()
        +         holding.books = replace(holding.books, num_allocated=len(holding.slots))
        @@ allocate_chunk in Scheduler
        OWN-1191 A retracted request keeps its committed length.
          self._observer(Tag.RETRACT)
        + self.before = {**vars(self).get("before", {}), request.request_id: request.num_committed}
        - chunks.append(chunk)
        + before = vars(self).get("before", {}).pop(request.request_id, 0)
        + chunks.append(PromptChunk(fill, max(start, min(before, chunk.end - 1)), chunk.end))
        @@ release_retracted in Scheduler.retract
        OWN-1192 A retraction is not counted by who schedules.
          self._part("release_retracted")(self.memory, request.holding)
        + books = request.holding.books
        + request.holding.books = replace(books, num_retractions=books.num_retractions - 1)
        OWN-1196 A retracted request is not queued again.
        - self.waiting.append(request)
        @@ chunk_length in Scheduler.next_prefill
        OWN-1193 The token after a chunk inside a prompt is output.
        - chunks.append(chunk) => chunks.append(PromptChunk(fill[: chunk.end], start, chunk.end))
        @@ evict_behind_window in Scheduler._evict
        OWN-1195 A prompt loses its window before the cache has it.
        - if self.memory.cache is not None and any(request is one for one in self.in_prefill):
        -     return
        ...
        - self._part("evict_behind_window")(self.memory, request.holding, request.num_committed)
        + self._part("evict_behind_window")(replace(self.memory, cache=None), request.holding, request.num_committed)
        @@ admit_request in Scheduler._next_waiting
        OWN-1197 A retracted request is never admitted again.
        - self._room().may_join(request, self.holders)
        + self._room().may_join(request, self.holders) and not request.num_retractions
        """,
        FinishReason=FinishReason,
    ),
    *edits_of_loops(
        [EAGLE_V2],
        """
        @@ assign_req_to_token_pool in Loop.prefill
        OWN-1194 A row is used again with the length of its owner before.
        - self._waiting.keep(self.side.prefill(after, self._pools), joins=True)
        + lengths = self._waiting.carried["seq_lens"]
        + before = lengths.copy()
        + self._waiting.keep(self.side.prefill(after, self._pools), joins=True)
        + lengths[before > 0] = before[before > 0]
        """,
    ),
)
