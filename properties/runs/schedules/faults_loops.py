"""Faults that no operation and no part can have: in who schedules, and in the loop of a worker."""

from specsim.conformance.backend import EAGLE_V2
from specsim.host.stopping import FinishReason
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Mutant, in_scheduler, mutants_of_loops, unchanged
from specsim.reference.worker.loop import Loop

_RELEASED = 'self._part("release_retracted")(self.memory, request.holding)'
_KEPT = "self._waiting.keep(self.side.prefill(after, self._pools), joins=True)"

_RETRACTIONS_ARE_NOT_COUNTED = edited(
    _RELEASED,
    f"""
    {_RELEASED}
    books = request.holding.books
    request.holding.books = replace(books, num_retractions=books.num_retractions - 1)
    """,
    within="Scheduler.retract",
)

_A_SLOT_OF_ABORTED_ONES_IS_LOST = edited(
    "ended = [request for request in self.running if request.finish is not None]",
    """
    ended = [request for request in self.running if request.finish is not None]
    for request in self.running:
        if request.finish_reason is FinishReason.ABORT:
            holding = request.holding
            holding.slots.pop()
            holding.books = replace(holding.books, num_allocated=len(holding.slots))
    """,
    within="Scheduler.finish",
    FinishReason=FinishReason,
)

_COMMITTED_BEFORE_IS_COMMITTED_AFTER = edited(
    "self._observer(Tag.RETRACT)",
    """
    self._observer(Tag.RETRACT)
    self.before = {**vars(self).get("before", {}), request.request_id: request.num_committed}
    """,
    "chunks.append(chunk)",
    """
    before = vars(self).get("before", {}).pop(request.request_id, 0)
    chunks.append(PromptChunk(fill, max(start, min(before, chunk.end - 1)), chunk.end))
    """,
    within="Scheduler",
)

_WINDOWS_PASS_OVER_PROMPTS = edited(
    "if self.memory.cache is not None and any(request is one for one in self.in_prefill):\n    return",
    "",
    'self._part("evict_behind_window")(self.memory, request.holding, request.num_committed)',
    'self._part("evict_behind_window")(replace(self.memory, cache=None), request.holding, request.num_committed)',
    within="Scheduler._evict",
)

_LENGTHS_OF_OWNERS_STAY = edited(
    _KEPT,
    f"""
    lengths = self._waiting.carried["seq_lens"]
    before = lengths.copy()
    {_KEPT}
    lengths[before > 0] = before[before > 0]
    """,
    within=Loop.prefill,
)

_SCHEDULERS = (
    ("OWN-1190", "release_finished", "A slot of an aborted request is lost.", _A_SLOT_OF_ABORTED_ONES_IS_LOST),
    ("OWN-1191", "allocate_chunk", "A retracted request keeps its committed length.",
     _COMMITTED_BEFORE_IS_COMMITTED_AFTER),
    ("OWN-1192", "release_retracted", "A retraction is not counted by who schedules.", _RETRACTIONS_ARE_NOT_COUNTED),
    ("OWN-1193", "chunk_length", "The token after a chunk inside a prompt is output.",
     edited("chunks.append(chunk)", "chunks.append(PromptChunk(fill[: chunk.end], start, chunk.end))",
            within="Scheduler.next_prefill")),
    ("OWN-1195", "evict_behind_window", "A prompt loses its window before the cache has it.",
     _WINDOWS_PASS_OVER_PROMPTS),
    ("OWN-1196", "release_retracted", "A retracted request is not queued again.",
     edited("self.waiting.append(request)", "", within="Scheduler.retract")),
    ("OWN-1197", "admit_request", "A retracted request is never admitted again.",
     edited("self._room().may_join(request, self.holders)",
            "self._room().may_join(request, self.holders) and not request.num_retractions",
            within="Scheduler._next_waiting")),
)  # fmt: skip

MUTANTS = (
    *(Mutant(number, name, fault, unchanged, **in_scheduler(inject)) for number, name, fault, inject in _SCHEDULERS),
    *mutants_of_loops(
        "assign_req_to_token_pool",
        [EAGLE_V2],
        [("OWN-1194", "A row is used again with the length of its owner before.", _LENGTHS_OF_OWNERS_STAY)],
    ),
)
