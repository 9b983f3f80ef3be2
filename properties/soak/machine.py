"""An engine, everything that was asked of it, and what must hold after each step."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specsim.assertion import require
from specsim.conformance.arrays import Array
from specsim.host.metrics import RequestCounters
from specsim.host.stopping import FinishReason
from specsim.properties.runs.scenario import Arrival
from specsim.properties.runs.tags import ExpectedTags
from specsim.properties.soak import contents
from specsim.properties.soak.alone import Drafts, started_from
from specsim.properties.soak.neighbour import Neighbour
from specsim.properties.soak.padding import Padding, padded_model_of
from specsim.properties.soak.reuse import Reuse
from specsim.properties.soak.setups import EVERY_SIZE, Setup
from specsim.properties.soak.sides import Sides
from specsim.properties.soak.subject import Subject
from specsim.properties.soak.texts import SampledOutputs, Watch, check_output
from specsim.properties.soak.trace import Trace
from specsim.reference.worker.pools import CARRIED
from specsim.rejection import WorkerRefusal
from specsim.simulation.comparing.request_pairs import free_at_rest
from specsim.simulation.engine import Engine
from specsim.simulation.events import Reach, Tag
from specsim.simulation.requests import Request
from specsim.simulation.turns.priorities import Coverage, Priorities
from specsim.simulation.worker import Iteration, is_telling

WIDE_BATCH = 4
"""Requests of a batch that counts as one of many."""

LOOKS_A_PROPOSAL = 4
"""Looks into the worker for each proposal that is compared with that of a fresh prefill."""

MOST_ZOMBIES = 16
"""Requests that ended last, whose results may still come; a batch has fewer."""

Ended = tuple[tuple[int, ...], int, RequestCounters]


class Machine:
    """One engine, or an implementation's and the reference's in lockstep, with counts of what they came to.

    Lockstep needs iterations that are resolved when they are launched; overlapped, outputs and contents alone tell.
    Where drafts are the implementation's own, nothing that depends on them is compared: no phases, nothing that a
    draft starts from, and no output of a seed, whose coins fall elsewhere: ``has_own_drafts``.
    """

    def __init__(self, subject: Subject, setup: Setup) -> None:
        self.setup = setup
        self.reach = Reach()
        self.trace = Trace()
        self.asked: list[Arrival] = []
        self.refused: str | None = None
        self.watched: dict[int, Watch] = {}
        self.num_decodes = 0
        self.num_wide_decodes = 0
        self.reuse = Reuse(self._end_of)
        self.sides = Sides(subject, setup, self.reach)
        self._is_overlapped = self.sides.setup.schedule.is_overlapped
        self.padding = Padding(setup, self.reach) if setup.is_padded else None
        if self.padding is not None:
            padded_model_of(self.engine.worker).agree = self.padding
        self.neighbour = Neighbour(subject, self.sides.setup, self.reach) if setup.is_ranked else None
        self._expected: dict[int, ExpectedTags] = {}
        self._num_outputs: dict[int, int] = {}
        self.has_own_drafts = subject.has_own_drafts(setup)
        self._fresh = {} if self.has_own_drafts else {setup.drafting.sizes: contents.Fresh(setup)}
        is_compared = setup.compares_drafts and len(self.sides.in_step) == 1 and not setup.drafter.has_memory
        is_compared = is_compared and not self.has_own_drafts
        self._drafts = Drafts(setup) if is_compared else None
        self._sampled = SampledOutputs(is_repeatable=not self.has_own_drafts)
        self._is_reported_anew = False
        self._num_looks = 0
        self._num_checked = 0
        self._ended: dict[int, Ended] = {}

    @property
    def engine(self) -> Engine:
        """The engine that is tried."""
        return self.sides.tried

    @property
    def has_work(self) -> bool:
        """Whether a rank has something to do."""
        return self.engine.has_work or (self.neighbour is not None and self.neighbour.engine.has_work)

    def submit(self, asked: Arrival) -> None:
        """Ask for an output; a request that the worker refuses by name counts as never asked for."""
        number = len(self.asked)
        reported = asked if is_telling(self.engine.worker) else asked.unreported()
        requests = [reported.request(number) for _ in self.sides.engines]
        try:
            self.sides.submit(requests)
        except WorkerRefusal as refusal:
            self.refused = refusal.limit
            return
        self.asked.append(asked)
        self.watched[number] = Watch(requests[0])

    def abort(self, number: int) -> None:
        """Ask a request to end."""
        self.watched[number] = replace(self.watched[number], was_aborted=True)
        self.sides.abort(number)

    def retract(self, place: int) -> None:
        """Take slots and row of one of those that have some."""
        for engine in self.sides.in_step:
            holders = engine.scheduler.holders
            engine.scheduler.retract(holders[place % len(holders)])

    def change_steps(self, num_steps: int) -> None:
        """Let the iterations that follow draft so many steps, but for batches that rest by their size."""
        for engine in self.sides.engines:
            if engine.adaptive is not None:
                states = engine.adaptive.states
                engine.adaptive.states = {**states, EVERY_SIZE: replace(states[EVERY_SIZE], num_steps=num_steps)}

    def change_engine(self, drafting: Any) -> None:
        """Let an engine that drafts so go on in the same pools and rows, the one of before if there was one."""
        if drafting == self.sides.drafting:
            return
        self._sampled.check(self._current_setup)
        self.sides.change(drafting)
        self._is_reported_anew = self.setup.has_parameters and self.sides.drafting == drafting
        if drafting not in self._fresh and not self.has_own_drafts:
            self._fresh[drafting] = contents.Fresh(self.setup.having(sizes=drafting))

    def step(self) -> None:
        """Take the next turns, and compare what their phases handed over."""
        before = self.engine.num_iterations
        carried, rows = self._carried()
        owners = self._owners()
        resolved = self.sides.step(self._take_turn)
        if self._is_reported_anew and resolved is not None:
            self.reach(Tag.PARAMETERS)
            self._is_reported_anew = False
        self.num_decodes += self.engine.num_iterations - before
        self.num_wide_decodes += resolved is not None and len(resolved.num_accepted_tokens) >= WIDE_BATCH
        if rows and carried and resolved is not None and not self.has_own_drafts:
            contents.check_hand_over(carried, rows, started_from(self.engine.worker.phases()))
        if self._drafts is not None and resolved is not None and not self._is_overlapped:
            self._drafts.note({**owners, **self._owners()}, self.engine.worker.phases())

    def run_idle_batch(self) -> None:
        """Let an iteration without requests run, and see that it leaves everything as it was."""
        before = None if self._is_overlapped else contents.kept_of(self.engine.worker.state(), self.setup)
        for engine in self.sides.in_step:
            engine.run_idle_batch()
        self.reach(Tag.IDLE)
        if before is not None:
            contents.check_kept(before, contents.kept_of(self.engine.worker.state(), self.setup))

    def check(self) -> None:
        """Raise AssertionError where something does not hold that always does."""
        if self.neighbour is not None:
            self.neighbour.check()
        scheduler = self.engine.scheduler
        scheduler.check_ledger()
        self.reuse.note(scheduler.holders)
        self.trace.note_requests(scheduler.holders)
        batch = len(scheduler.holders)
        require(batch <= scheduler.max_batch, "requests with a row", batch, f"at most {scheduler.max_batch}")
        self._check_outputs_grow()
        self._check_rows()
        for request in scheduler.finished[self._num_checked :]:
            self.trace.note_end(request)
            check_output(self._current_setup, self.watched[request.request_id], self._sampled)
            if self._drafts is not None:
                self._drafts.check(request)
            self._expected.pop(request.request_id, None)
            self._ended[request.request_id] = _all_that_counts(request)
        self._num_checked = len(scheduler.finished)
        for request in scheduler.finished[-MOST_ZOMBIES:]:
            got, expected = _all_that_counts(request), self._ended[request.request_id]
            what = f"output, length and counters of request {request.request_id} after its end"
            require(got == expected, what, got, expected)

    def check_end(self) -> None:
        """Raise AssertionError unless every request has ended once and owns nothing."""
        self._sampled.check(self._current_setup)
        if self.neighbour is not None:
            self.neighbour.check_end()
        self.sides.finish()
        self.trace.note(*(one.trail for one in self._priorities))
        scheduler = self.engine.scheduler
        ended = sorted(request.request_id for request in scheduler.finished)
        require(ended == list(range(len(self.asked))), "requests that have ended", ended, len(self.asked))
        free, sizes = free_at_rest(scheduler.memory), scheduler.sizes
        for kind, num_slots in (("", sizes.num_slots), (" SWA", sizes.num_swa_slots)):
            everything = num_slots // sizes.page_size * sizes.page_size - sizes.page_size
            left = free.get(f"free{kind} slots", everything)
            require(left == everything, f"free and cached{kind} slots at the end", left, everything)
        left, everything = free["free rows"], sizes.num_rows - 1
        require(left == everything, "free rows at the end", left, everything)

    def _take_turn(self, engine: Engine) -> Iteration | None:
        """Let the engine that is tried take its turn, and the rank beside it."""
        if self.neighbour is None or self.padding is None:
            return engine.step()
        return self.neighbour.take_turn(engine, self.padding)

    @property
    def _current_setup(self) -> Setup:
        return self.setup.having(sizes=self.sides.drafting)

    @property
    def _priorities(self) -> list[Priorities]:
        """What decided about the order of events, of all engines that were tried and of the ranks."""
        engines = [*self.sides.all_tried, *(() if self.neighbour is None else (self.neighbour.engine,))]
        every = [*(engine.priorities for engine in engines), self.neighbour and self.neighbour.priorities]
        return [one for one in every if one is not None]

    @property
    def coverage(self) -> Coverage:
        """How many schedules of a stated depth ran."""
        return sum((one.coverage for one in self._priorities), Coverage())

    @property
    def num_leaked(self) -> int:
        """Slots that are neither free nor anybody's, those of the prefix cache excepted."""
        scheduler = self.engine.scheduler
        size, cache = scheduler.sizes.page_size, scheduler.memory.cache
        cached = frozenset() if cache is None else cache.slots
        owned = {slot // size for request in scheduler.holders for slot in request.slots}
        return size * len(scheduler.memory.allocator.owned_pages - owned - {slot // size for slot in cached})

    def _carried(self) -> tuple[Mapping[str, Array], list[int]]:
        """Return what the next drafts start from, and whose; nothing where it may be on its way."""
        rows = [] if self._is_overlapped else [request.row for request in self.engine.scheduler.running]
        state = self.engine.worker.state() if rows else {}
        return {name: state[name].copy() for name in CARRIED if name in state}, rows

    def _owners(self) -> dict[int, int]:
        """Return whose each row is."""
        return {request.row: request.request_id for request in self.engine.scheduler.holders}

    def _end_of(self, number: int) -> str:
        reason = self.watched[number].request.finish_reason
        return "retraction" if reason is None else FinishReason(reason).value

    def _check_outputs_grow(self) -> None:
        for request in self.engine.scheduler.holders:
            number, length = request.request_id, len(request.output)
            least = self._num_outputs.get(number, 0)
            require(length >= least, f"output tokens of request {number}", length, f"at least {least}")
            self._num_outputs[number] = length

    def _check_rows(self) -> None:
        """Check what lies in the rows whose results are all known, where the worker tells."""
        scheduler = self.engine.scheduler
        known = [one for one in scheduler.running if not any(one is other for other in scheduler.unanswered)]
        if not known:
            return
        state = self.engine.worker.state()
        if not set(contents.POOLS) <= set(state):
            return
        for request in known:
            number, width = request.request_id, scheduler.sizes.row_width
            expected = self._expected.setdefault(number, ExpectedTags(self.setup.model, width))
            contents.check_contents(
                state, request, expected, self.setup.drafter.has_known_tags and not self.has_own_drafts
            )
            contents.check_window(state, request, scheduler.memory, self._is_overlapped, expected)
            if not self._is_overlapped:
                contents.check_relay(state, request)
                contents.check_states(state, request, expected)
        self._num_looks += 1
        if self.has_own_drafts:
            return
        if not self._is_overlapped and self._num_looks % LOOKS_A_PROPOSAL == 0:
            request, fresh = known[self._num_looks // LOOKS_A_PROPOSAL % len(known)], self._fresh[self.sides.drafting]
            contents.check_proposal(state, request, fresh)
            if not self.setup.drafter.has_known_tags:
                contents.check_draft_entries(state, request, fresh, self.setup.model.draft_pool)


def _all_that_counts(request: Request) -> Ended:
    """Return what no result may change once a request has ended."""
    return tuple(request.output), request.num_committed, request.counters
