"""The scheduler: admits requests, runs their prompts in chunks, allocates ahead, retracts, aborts and finishes them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.host_protocol import HostFunctions
from specsim.simulation.events import Observer, Tag, ignore
from specsim.simulation.ledger import Ledger
from specsim.simulation.requests import PromptChunk, Request, SlotRange
from specsim.simulation.submission import check_request, most_positions


@dataclass(frozen=True)
class PrefillBatch:
    """What one turn runs of prompts: requests, their chunks, and the slots that these got.

    ``joining`` are those that have just been admitted.
    """

    requests: tuple[Request, ...]
    chunks: tuple[PromptChunk, ...]
    ranges: tuple[SlotRange, ...]
    joining: tuple[Request, ...]


class Scheduler:
    """Queues and books of an engine, page size 1.

    ``running`` is the decode batch, in order. ``mid_prompt`` is the one request whose prompt is not through: it keeps
    its row and is left out of the batch. ``unanswered`` are those whose prefill is launched but not resolved.

    Parameters
    ----------
    operations : HostFunctions
        Decide on chunks, allocation and retraction.
    allocates_ahead : bool
        V2; see ``Ledger``.
    prefill_chunk : int or None
        Positions that the prompts of one turn may have together.
    promised : Fraction
        The part of what requests may still come to need that is kept free for them. With less than everything, the pool
        can run out, and requests are retracted.
    observer : callable
        Is told what happens.
    """

    def __init__(
        self,
        config: SpecConfig,
        sizes: PoolSizes,
        max_batch: int,
        operations: HostFunctions,
        shuffle_seed: int | None = None,
        allocates_ahead: bool = True,
        prefill_chunk: int | None = None,
        promised: Fraction = Fraction(1),
        observer: Observer = ignore,
    ) -> None:
        self.config = config
        self.sizes = sizes
        self.max_batch = max_batch
        self.ledger = Ledger(sizes, shuffle_seed, allocates_ahead)
        self.slots, self.rows = self.ledger.slots, self.ledger.rows
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.mid_prompt: Request | None = None
        self.unanswered: list[Request] = []
        self.finished: list[Request] = []
        self._operations = operations
        self._prefill_chunk = prefill_chunk
        self._promised = promised
        self._observer = observer
        self._used_rows: set[int] = set()

    @property
    def holders(self) -> list[Request]:
        """The requests that have a row."""
        return [*self.running, *([] if self.mid_prompt is None else [self.mid_prompt])]

    @property
    def has_requests(self) -> bool:
        """Whether a request has not ended."""
        return bool(self.waiting or self.running or self.mid_prompt)

    def submit(self, request: Request) -> None:
        """Queue a request; see ``check_request`` for what is rejected."""
        check_request(self.config, self.sizes, request)
        self.waiting.append(request)

    def abort(self, request_id: int) -> None:
        """End a request: at once if it waits, at its next result if it runs; nothing if it is not there.

        Notes
        -----
        Source: semantics I.9.
        """
        for request in [one for one in self.waiting if one.request_id == request_id]:
            self._observer(Tag.ABORT)
            self.waiting.remove(request)
            request.abort()
            self.finished.append(request)
        for request in self.holders:
            if request.request_id == request_id:
                self._observer(Tag.ABORT)
                request.is_aborted = True

    def next_prefill(self) -> PrefillBatch | None:
        """Go on with the prompt that is not through, and admit what rows, batch, slots and the turn have room for.

        Notes
        -----
        Before a chunk runs, exactly the positions up to its end are allocated and count as committed. Source: semantics
        I.8, J.0.
        """
        budget = self._prefill_chunk
        requests: list[Request] = []
        chunks: list[PromptChunk] = []
        ranges: list[SlotRange] = []
        joining: list[Request] = []
        while True:
            request = self.mid_prompt or self._next_waiting()
            if request is None:
                break
            start, fill = request.num_committed, request.fill
            length = self._operations.chunk_length(len(fill) - start, budget, 1)
            if length == 0 or length > self.slots.num_free:
                break
            if request is not self.mid_prompt:
                self._join(request)
                joining.append(request)
            chunk = PromptChunk(fill, start, start + length)
            ranges.append(self.ledger.extend(request, chunk.end))
            request.num_committed = chunk.end
            requests.append(request)
            chunks.append(chunk)
            budget = None if budget is None else budget - length
            if chunk.next_token is not None:
                self._observer(Tag.CHUNK)
                self.mid_prompt = request
                break
            self.mid_prompt = None
            self.running.append(request)
            self.unanswered.append(request)
        return PrefillBatch(tuple(requests), tuple(chunks), tuple(ranges), tuple(joining)) if requests else None

    def retract_for_decode(self) -> list[Request]:
        """Take the slots of requests that the next decode leaves no room for; return those that it took them from.

        The prompt that is not through gives way first, then the end of the batch. A request that has no room alone
        ends.

        Notes
        -----
        Source: semantics I.5.
        """
        batch = self.holders
        needed = [self._needed(request) if request is not self.mid_prompt else 0 for request in batch]
        owned = [len(request.slots) for request in batch]
        plan = self._operations.plan_retractions(self.slots.num_free, needed, owned)
        popped = batch[plan.num_kept :][::-1]
        for request in popped:
            self.retract(request)
        if plan.is_last_aborted:
            self._observer(Tag.ABORT)
            batch[0].abort()
            self.finish()
        return popped

    def retract(self, request: Request) -> None:
        """Take a request's slots and row; it waits again, and keeps its output.

        Notes
        -----
        What was launched for it is late when it comes. Source: semantics I.4.
        """
        self._observer(Tag.RETRACT)
        self._leave(request)
        self.ledger.release(request)
        request.num_committed = 0
        request.num_retractions += 1
        self.waiting.append(request)

    def prepare_for_decode(self) -> list[SlotRange]:
        """Allocate what every running V2 request may need before its next result is known."""
        ranges: list[SlotRange] = []
        if not self.ledger.allocates_ahead:
            return ranges
        for request in self.running:
            end = self._decode_end(request)
            if end > len(request.slots):
                ranges.append(self.ledger.extend(request, end))
        return ranges

    def finish(self) -> list[Request]:
        """Release every request that has ended and return them."""
        ended = [request for request in self.running if request.finish is not None]
        for request in ended:
            self._observer(Tag.FINISH)
            self._leave(request)
            self.ledger.release(request)
            self.finished.append(request)
        return ended

    def answered(self, requests: Sequence[Request]) -> None:
        """Note that the prefill of some requests is resolved."""
        self.unanswered = [one for one in self.unanswered if not any(one is request for request in requests)]

    def check_ledger(self) -> None:
        """Raise AssertionError unless every slot and row has exactly one owner and every length its place."""
        in_prefill = [*self.unanswered, *([] if self.mid_prompt is None else [self.mid_prompt])]
        self.ledger.check(self.holders, in_prefill)

    def demand(self, request: Request) -> int:
        """Return the most positions that a request can come to own."""
        return most_positions(self.config, request)

    def _next_waiting(self) -> Request | None:
        """Return the first of the queue if it may join."""
        if not self.waiting or len(self.holders) >= self.max_batch or not self.rows.num_free:
            return None
        request = self.waiting[0]
        promised = sum(max(0, self._reserved(one) - len(one.slots)) for one in self.holders)
        return request if self._reserved(request) <= self.slots.num_free - promised else None

    def _reserved(self, request: Request) -> int:
        """Return how many positions are kept for a request: those of its next decode, and part of what may follow."""
        nearest = max(len(request.fill), request.num_committed) + self.config.reserve
        return nearest + ceil(self._promised * (self.demand(request) - nearest))

    def _join(self, request: Request) -> None:
        self.waiting.popleft()
        self.ledger.give_row(request)
        if request.row in self._used_rows:
            self._observer(Tag.HISTORY)
        self._used_rows.add(request.row)
        if request.matcher is None and request.grammar is not None:
            request.matcher = request.grammar()

    def _leave(self, request: Request) -> None:
        if request is self.mid_prompt:
            self.mid_prompt = None
        self.running = [one for one in self.running if one is not request]
        self.answered([request])

    def _needed(self, request: Request) -> int:
        """Return how many slots the next decode of a running request takes."""
        if self.ledger.allocates_ahead:
            return self._decode_end(request) - len(request.slots)
        return self.config.allocation

    def _decode_end(self, request: Request) -> int:
        return self._operations.decode_end(request.num_committed, len(request.slots), self.config.reserve, 1)
