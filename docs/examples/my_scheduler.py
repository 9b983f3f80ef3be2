"""A scheduler of one's own, whole: the shortest text runs first, and the last to join gives way; it inherits nothing.

``specsim check my_scheduler`` and ``specsim soak my_scheduler`` try it in this folder.
"""

from dataclasses import replace

from specsim.host.stopping import FinishReason
from specsim.simulation.events import Tag, ignore
from specsim.simulation.memory import SlotRange, match_prefix, with_swa_slots
from specsim.simulation.pools import build_memory, check_texts, decode_sizes
from specsim.simulation.requests import PrefillBatch, PromptChunk
from specsim.simulation.reservations import Reservations
from specsim.simulation.schedule import IN_TURN
from specsim.simulation.submission import check_request
from specsim.simulation.telling import tell_end

SCHEDULER = "my_scheduler.ShortestFirst"


class ShortestFirst:
    """Admit by length; the parts of memory do the rest: what a request owns, gives back and leaves to the cache."""

    def __init__(
        self,
        config,
        sizes,
        max_batch,
        operations,
        shuffle_seed=None,
        allocates_ahead=True,
        schedule=IN_TURN,
        *,
        has_pair_keys=True,
        observer=ignore,
        window=0,
        num_ahead=1,
    ):
        keys = schedule.has_prefix_cache, has_pair_keys, window, num_ahead
        self.memory = build_memory(operations, sizes, shuffle_seed, *keys)
        self.config, self.sizes, self.max_batch, self.schedule = config, sizes, max_batch, schedule
        self.allocates_ahead, self.decode_sizes = allocates_ahead, decode_sizes(config, allocates_ahead)
        self.operations, self.part, self.observer = operations, operations.host, observer
        self.waiting, self.prompts, self.running, self.unanswered, self.finished = [], [], [], [], []
        self.used_rows, self.evicted = set(), []

    @property
    def holders(self):
        """The requests that have a row; ``prompts`` has the one whose prompt is not through."""
        return [*self.running, *self.prompts]

    @property
    def has_requests(self):
        """Whether a request has not ended."""
        return bool(self.waiting or self.holders)

    @property
    def room(self):
        """What is kept free; an engine that goes on in the pools of another one assigns other memory."""
        return Reservations(self.memory, self.config, self.decode_sizes, self.schedule, self.part)

    def submit(self, request):
        """Queue a request, unless it can never fit."""
        check_request(self.config, self.sizes, request, self.room.most_swa(request))
        self.waiting.append(request)

    def abort(self, request_id):
        """End a request that waits; one that has a row ends with its next result."""
        for request in [one for one in (*self.waiting, *self.holders) if one.request_id == request_id]:
            self.observer(Tag.ABORT)
            request.is_aborted = True
            if not request.row:
                self.waiting.remove(request)
                request.abort()
                self.finished.append(request)

    def next_prefill(self):
        """Go on with the prompt that is not through, then admit the shortest text that waits, and so on."""
        budget, requests, chunks, ranges, joining = self.schedule.prefill_chunk, [], [], [], []
        while request := next(iter(self.prompts), None) or self.shortest():
            is_new, fill, known = not request.row, request.fill, ()
            start = request.num_committed
            if is_new:
                start = len(match_prefix(self.memory, fill, key_units=self.part("key_units")).slots)
            if not is_new:
                self.evict(request)
            length = self.operations.chunk_length(len(fill) - start, budget, self.sizes.page_size)
            end = start + length
            if not length or not self.room.has_room(start, end, start if is_new else 0):
                break
            if is_new:
                known = self.join(request)
                joining.append(request)
            given = self.part("allocate_chunk")(self.memory, request.holding, end)
            ranges.append(replace(given, start=given.start - len(known), slots=(*known, *given.slots)))
            requests.append(request)
            chunks.append(PromptChunk(fill, start, end))
            budget = None if budget is None else budget - length
            self.prompts = [request] if end < len(fill) else []
            if self.prompts:
                self.observer(Tag.CHUNK)
                break
            self.running.append(request)
            self.unanswered.append(request)
        if not requests:
            return None
        return PrefillBatch(tuple(requests), tuple(chunks), tuple(self.with_evicted(ranges)), tuple(joining))

    def shortest(self):
        """Return the request with the shortest text, where it may join."""
        if not self.waiting or len(self.holders) >= self.max_batch or not self.memory.rows.num_free:
            return None
        request = min(self.waiting, key=lambda one: one.num_fill)
        return request if self.room.may_join(request, self.holders) else None

    def join(self, request):
        """Give a request a row and what the cache has of its text; return those slots."""
        self.waiting.remove(request)
        hit = self.part("admit_request")(self.memory, request.holding, request.fill)
        for tag, is_so in ((Tag.PREFIX, hit.slots), (Tag.HISTORY, request.row in self.used_rows)):
            if is_so:
                self.observer(tag)
        self.used_rows.add(request.row)
        if request.matcher is None and request.grammar is not None:
            request.matcher = request.grammar()
        return hit.slots

    def publish(self, request, end):
        """Leave resolved text to the prefix cache."""
        given = self.part("publish_prefix")(self.memory, request.holding, request.fill[:end])
        return with_swa_slots(self.memory, [given])[0]

    def retract_for_decode(self):
        """Let requests give way, the last one first, until the others have room; one that has none alone ends."""
        for request in self.running:
            self.evict(request)
        holders, given_back = self.holders, []
        in_prefill = {id(one.holding) for one in self.prompts}

        def demand(holdings):
            books = [one.books for one in holdings if id(one) not in in_prefill]
            return self.part("new_tokens_required_next_decode")(books, self.decode_sizes, self.sizes.page_size)

        def retract(holding):
            given_back.extend(one for one in holders if one.holding is holding)
            self.retract(given_back[-1])

        room = self.part("make_room")(self.memory, [one.holding for one in holders], demand, retract)
        if room.aborted is not None:
            self.observer(Tag.ABORT)
            holders[room.aborted].abort()
            self.finish()
        return given_back

    def retract(self, request):
        """Take slots and row; what is on its way for the request is late."""
        self.observer(Tag.RETRACT)
        self.leave(request)
        self.part("release_retracted")(self.memory, request.holding)
        self.waiting.append(request)

    def prepare_for_decode(self):
        """Allocate what an iteration may need; V1 does that itself."""
        if not self.allocates_ahead:
            return self.with_evicted([])
        holdings = [request.holding for request in self.running]
        return self.with_evicted(self.part("prepare_for_decode")(self.memory, holdings, self.decode_sizes))

    def finish(self):
        """Release who has ended: what was output goes to the cache, the rest is free."""
        ended = [request for request in self.running if request.finish is not None]
        for request in ended:
            tell_end(request, self.observer)
            self.leave(request)
            cut = None if request.finish.reason is FinishReason.ABORT else request.finish.num_tokens
            final = request.num_committed if request.num_caught_up is None else request.num_caught_up
            owned = self.part("owned_length")(final, len(request.prompt), cut)
            self.part("release_finished")(self.memory, request.holding, request.fill, owned)
        self.finished.extend(ended)
        return ended

    def answered(self, requests):
        """Note whose prompts are through and resolved."""
        self.unanswered = without(self.unanswered, requests)

    def leave(self, request):
        """Take a request out of the batch."""
        self.prompts, self.running, self.unanswered = (
            without(some, [request]) for some in (self.prompts, self.running, self.unanswered)
        )

    def evict(self, request):
        """Give back the slots that a sliding window has passed, but those of a prompt that goes to the cache."""
        if self.memory.cache is None or not any(request is one for one in (*self.prompts, *self.unanswered)):
            lost = self.part("evict_behind_window")(self.memory, request.holding, request.num_committed)
            self.evicted += lost
            if lost:
                self.observer(Tag.SWA)

    def with_evicted(self, ranges):
        """Return ranges for the worker, with the slots that a window has passed since the last ones."""
        lost = [SlotRange(0, 0, 0, (), remapped=tuple(self.evicted))] if self.evicted else []
        self.evicted = []
        return with_swa_slots(self.memory, [*ranges, *lost])

    def check_ledger(self):
        """Raise AssertionError unless each slot and row has one owner."""
        holdings = {request.request_id: request.holding for request in self.holders}
        self.part("Ledger")(self.memory).check(holdings)
        check_texts(self.holders, [*self.prompts, *self.unanswered], self.allocates_ahead)


def without(requests, others):
    """Return requests but some; two that ask for the same are not one."""
    return [one for one in requests if not any(one is other for other in others)]
