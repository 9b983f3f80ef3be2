"""The scheduler: admits requests, runs their prompts in chunks, allocates ahead, retracts, aborts and finishes them."""

from collections import deque
from collections.abc import MutableSequence, Sequence
from dataclasses import replace

from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.calls import CallsByName
from specsim.host.stopping import FinishReason
from specsim.simulation.events import Observer, Tag, ignore
from specsim.simulation.handing_over import SlotLoad
from specsim.simulation.memory import (
    Allocator,
    Holding,
    Rows,
    SlotRange,
    allocate_loaded,
    match_prefix,
    with_swa_slots,
)
from specsim.simulation.pools import build_memory, check_texts, decode_sizes
from specsim.simulation.requests import PrefillBatch, PromptChunk, Request
from specsim.simulation.reservations import Reservations
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.submission import check_request
from specsim.simulation.telling import tell_end


class Scheduler:
    """Queues and books of an engine: the default of what ``SchedulerProtocol`` asks for.

    ``running`` is the decode batch, in order. ``mid_prompt`` is the one request whose prompt is not through: it keeps
    its row and is left out of the batch. ``unanswered`` are those whose prefill is launched but not resolved.

    Parameters
    ----------
    operations : CallsByName
        Decide on chunks, allocation and retraction, and have the parts that memory is built from.
    allocates_ahead : bool
        V2: positions are allocated past the committed ones. V1 allocates inside an iteration, so that between two of
        them exactly the committed positions are.
    schedule : Schedule
        Chunks, the room that is kept free, and whether prefixes are cached. With less than all room kept, the pool can
        run out, and requests are retracted.
    has_pair_keys : bool
        Whether the draft cache is shifted.
    observer : callable
        Called with what happens.
    window : int
        Positions that a layer with a sliding window sees; 0 where no layer has one.
    num_ahead : int
        Tokens after a position that the draft may have consumed.
    """

    def __init__(
        self,
        config: SpecConfig,
        sizes: PoolSizes,
        max_batch: int,
        operations: CallsByName,
        shuffle_seed: int | None = None,
        allocates_ahead: bool = True,
        schedule: Schedule = IN_TURN,
        has_pair_keys: bool = True,
        observer: Observer = ignore,
        window: int = 0,
        num_ahead: int = 1,
    ) -> None:
        self.config, self.sizes, self.max_batch = config, sizes, max_batch
        self.allocates_ahead = allocates_ahead
        keys = schedule.has_prefix_cache, has_pair_keys, window, num_ahead
        self.memory = build_memory(operations, sizes, shuffle_seed, *keys)
        self.waiting: MutableSequence[Request] = deque()
        self.mid_prompt: Request | None = None
        self.running: list[Request] = []
        self.unanswered: list[Request] = []
        self.finished: list[Request] = []
        self._sizes = decode_sizes(config, allocates_ahead)
        self._operations, self._part = operations, operations.host
        self._schedule, self._observer = schedule, observer
        self._used_rows: set[int] = set()
        self._unreported: list[int] = []

    @property
    def slots(self) -> Allocator:
        """Who hands out slots."""
        return self.memory.allocator

    @property
    def rows(self) -> Rows:
        """Who hands out rows."""
        return self.memory.rows

    @property
    def holders(self) -> list[Request]:
        """The requests that have a row."""
        return [*self.running, *([] if self.mid_prompt is None else [self.mid_prompt])]

    @property
    def in_prefill(self) -> list[Request]:
        """Those of them whose prompt is not resolved to its end."""
        return [*self.unanswered, *([] if self.mid_prompt is None else [self.mid_prompt])]

    @property
    def has_requests(self) -> bool:
        """Whether a request has not ended."""
        return bool(self.waiting or self.running or self.mid_prompt)

    def submit(self, request: Request) -> None:
        """Queue a request; see ``check_request`` for what is rejected."""
        check_request(self.config, self.sizes, request, self._room().most_swa(request))
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
        budget = self._schedule.prefill_chunk
        requests: list[Request] = []
        chunks: list[PromptChunk] = []
        ranges: list[SlotRange] = []
        joining: list[Request] = []
        loads: list[SlotLoad] = []
        while True:
            request = self.mid_prompt or self._next_waiting()
            if request is None:
                break
            fill, is_new = request.fill, request is not self.mid_prompt
            start = num_hit = request.num_committed
            if is_new:
                num_hit = len(match_prefix(self.memory, fill, key_units=self._part("key_units")).slots)
                start = num_hit if request.loaded is None else max(num_hit, request.loaded.num_positions)
            if not is_new:
                self._evict(request)
            length = self._operations.chunk_length(len(fill) - start, budget, self.sizes.page_size)
            free = num_hit, start + length, num_hit if is_new else 0, start - num_hit
            if length == 0 or not self._room().has_room(*free):
                break
            if is_new:
                self._join(request)
                joining.append(request)
                loads += self._load(request)
            chunk = PromptChunk(fill, start, start + length)
            given: SlotRange = self._part("allocate_chunk")(self.memory, request.holding, chunk.end)
            known = tuple(request.slots[:start]) if is_new else ()
            ranges.append(replace(given, start=given.start - len(known), slots=(*known, *given.slots)))
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
        if not requests:
            return None
        parts = tuple(requests), tuple(chunks), tuple(self._reported(ranges)), tuple(joining), tuple(loads)
        return PrefillBatch(*parts)

    def publish(self, request: Request, end: int) -> SlotRange:
        """Leave the text up to the end of a resolved chunk to the prefix cache; return what the row says from now on.

        Notes
        -----
        Source: semantics I.7.
        """
        given = self._part("publish_prefix")(self.memory, request.holding, request.fill[:end])
        return with_swa_slots(self.memory, [given])[0]

    def retract_for_decode(self) -> list[Request]:
        """Take the slots of requests that the next decode leaves no room for; return those that it took them from.

        What lies before every window goes first, then the prompt that is not through, then the end of the batch. A
        request that has no room alone ends.

        Notes
        -----
        Source: semantics I.5.
        """
        for request in self.running:
            self._evict(request)
        batch = {id(request.holding): request for request in self.holders}
        given_back: list[Request] = []
        in_prefill = None if self.mid_prompt is None else self.mid_prompt.holding

        def demand(holdings: Sequence[Holding]) -> int:
            books = [one.books for one in holdings if one is not in_prefill]
            needed: int = self._part("new_tokens_required_next_decode")(books, self._sizes, self.sizes.page_size)
            return needed

        def retract(holding: Holding) -> None:
            given_back.append(batch[id(holding)])
            self.retract(given_back[-1])

        holdings = [request.holding for request in self.holders]
        room = self._part("make_room")(self.memory, holdings, demand, retract)
        if room.aborted is not None:
            self._observer(Tag.ABORT)
            batch[id(holdings[room.aborted])].abort()
            self.finish()
        return given_back

    def retract(self, request: Request) -> None:
        """Take a request's slots and row; it waits again, and keeps its output.

        Notes
        -----
        What was launched for it is late when it comes. Source: semantics I.4.
        """
        self._observer(Tag.RETRACT)
        self._leave(request)
        self._part("release_retracted")(self.memory, request.holding)
        self.waiting.append(request)

    def prepare_for_decode(self) -> list[SlotRange]:
        """Allocate what every running V2 request may need before its next result is known; return what changed."""
        if not self.allocates_ahead:
            return self._reported([])
        holdings = [request.holding for request in self.running]
        return self._reported(self._part("prepare_for_decode")(self.memory, holdings, self._sizes))

    def finish(self) -> list[Request]:
        """Release every request that has ended and return them; what they give back is free when all have."""
        ended = [request for request in self.running if request.finish is not None]
        if ended:
            self.slots.begin_free_group()
        for request in ended:
            tell_end(request, self._observer)
            self._leave(request)
            self._release(request)
            self.finished.append(request)
        if ended:
            self.slots.end_free_group()
        return ended

    def answered(self, requests: Sequence[Request]) -> None:
        """Note that the prefill of some requests is resolved."""
        self.unanswered = [one for one in self.unanswered if not any(one is request for request in requests)]

    def check_ledger(self) -> None:
        """Raise AssertionError unless every slot and row has exactly one owner and every length its place."""
        holdings = {request.request_id: request.holding for request in self.holders}
        self._part("Ledger")(self.memory).check(holdings)
        check_texts(self.holders, self.in_prefill, self.allocates_ahead)

    def demand(self, request: Request) -> int:
        """Return the most positions that a request can come to own."""
        return self._room().demand(request)

    def _evict(self, request: Request) -> None:
        """Give back the SWA slots of a request that no later forward reads; the next ranges tell the worker.

        A prompt on its way to the prefix cache keeps its own: a request that hits it sees the window before its end.
        """
        if self.memory.cache is not None and any(request is one for one in self.in_prefill):
            return
        lost: list[int] = self._part("evict_behind_window")(self.memory, request.holding, request.num_committed)
        if lost:
            self._observer(Tag.SWA)
            self._unreported += lost

    def _reported(self, ranges: Sequence[SlotRange]) -> list[SlotRange]:
        """Return ranges as a worker gets them, and what lost its SWA slots; each with what its slots have now."""
        lost = [SlotRange(0, 0, 0, (), remapped=tuple(self._unreported))] if self._unreported else []
        self._unreported = []
        return with_swa_slots(self.memory, [*ranges, *lost])

    def _next_waiting(self) -> Request | None:
        """Return the first of the queue if it may join."""
        if not self.waiting or len(self.holders) >= self.max_batch or not self.rows.num_free:
            return None
        request = self.waiting[0]
        return request if self._room().may_join(request, self.holders) else None

    def _room(self) -> Reservations:
        """Return what is kept free; an engine that takes over brings other memory than there is at the start."""
        return Reservations(self.memory, self.config, self._sizes, self._schedule, self._part)

    def _join(self, request: Request) -> None:
        del self.waiting[0]
        hit: SlotRange = self._part("admit_request")(self.memory, request.holding, request.fill)
        if hit.slots:
            self._observer(Tag.PREFIX)
        if request.row in self._used_rows:
            self._observer(Tag.HISTORY)
        self._used_rows.add(request.row)
        if request.matcher is None and request.grammar is not None:
            request.matcher = request.grammar()

    def _load(self, request: Request) -> list[SlotLoad]:
        """Allocate what a request that joins has loaded beyond what it hits; return it, with its slots."""
        load, request.loaded, start = request.loaded, None, len(request.slots)
        if load is None or load.num_positions <= start:
            return []
        parts = {name: self._part(name) for name in ("allocate_chunk", "evict_behind_window")}
        self._unreported += allocate_loaded(self.memory, request.holding, load.num_positions, **parts)
        return [SlotLoad(request.row, start, tuple(request.slots[start:]), load.after(start))]

    def _release(self, request: Request) -> None:
        finish = request.finish
        cut = None if finish is None or finish.reason is FinishReason.ABORT else finish.num_tokens
        num_final = request.num_committed if request.num_caught_up is None else request.num_caught_up
        owned = self._part("owned_length")(num_final, len(request.prompt), cut)
        self._part("release_finished")(self.memory, request.holding, request.fill, owned)

    def _leave(self, request: Request) -> None:
        if request is self.mid_prompt:
            self.mid_prompt = None
        self.running = [one for one in self.running if one is not request]
        self.answered([request])
