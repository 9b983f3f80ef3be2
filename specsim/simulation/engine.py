"""The loop: each turn forms a batch, launches it, and resolves what was launched before."""

from collections import deque
from collections.abc import Callable, Sequence

from specsim.assertion import require_kind, require_present
from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.conformance.calls import CallsByName
from specsim.conformance.direct import Direct
from specsim.host.adaptive import AdaptiveController
from specsim.host.metrics import (
    DECODE_LOG_INTERVAL,
    IntervalStats,
    SpecCounters,
    drafts_per_round,
    report_decode_stats,
    update_spec_metrics,
)
from specsim.host.positions import PositionCounters, count_positions
from specsim.rejection import Reason, SpecRejection, WorkerRefusal
from specsim.simulation.drafted import count_drafts, count_request
from specsim.simulation.events import Observer, Tag, ignore
from specsim.simulation.handing_over import HandOver
from specsim.simulation.memory import Export
from specsim.simulation.numbers import check_steps, sizes_of_iteration
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.scheduler_protocol import MakeScheduler, SchedulerProtocol, require_scheduler
from specsim.simulation.submission import check_choice
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.telling import tell_iteration, tell_numbers
from specsim.simulation.turns.exporting import hand_over, load_of, written_lengths
from specsim.simulation.turns.fitting import has_pair_keys, require_room, require_same, require_schedule
from specsim.simulation.turns.launches import Launched, Launcher, clipped_steps
from specsim.simulation.turns.overlaps import Overlaps
from specsim.simulation.turns.priorities import Priorities
from specsim.simulation.turns.recording import UNWATCHED, Watch
from specsim.simulation.turns.results import reported_by, resolve_iteration, resolve_prefill
from specsim.simulation.verification import VerifiedCounters, VerifyBudgets, VerifyMode
from specsim.simulation.worker import Iteration, SelectiveWorker, SynchronousWorker, Worker, is_telling

OnInterval = Callable[[IntervalStats, SpecCounters, PositionCounters], None]

OWN_DECISIONS = load("specsim.simulation.own")
"""The host functions and parts of specsim itself."""


class Engine:
    """An engine around one worker; ``intervals`` holds a report every ``decode_log_interval`` batches.

    A V1 worker gets the books, allocates and frees inside its iterations and ends the requests itself. A V2 worker can
    be overlapped: then a turn is launched before the one before it is resolved, and what is queued runs in an order
    that a seed draws. With ``adaptive``, every batch drafts as many steps as the controller says, which observes what
    was accepted; rates are over the drafts of the deepest candidate. With ``num_drafts`` of the schedule, each request
    drafts as many of them as that says. With ``verification`` every iteration has a budget of drafts that are verified,
    from results that have come before it; ``verified`` counts them.

    Parameters
    ----------
    schedule : Schedule
        Overlap, chunks, and how much room is kept free.
    operations : CallsByName or None
        Decide about chunks, late results and streams, and have the parts of memory; None for specsim's own.
    observer : callable
        Called with what happens.
    make_scheduler : callable
        Makes the scheduler; a class of one's own, or ours.
    watch : Watch
        Gets launches and results.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a controller of a tree, or one whose deepest candidate is not what the worker allocates; a
        scheduler that lacks something; what ``require_schedule`` refuses.
    """

    def __init__(
        self,
        worker: Worker,
        max_batch: int,
        shuffle_seed: int | None = None,
        decode_log_interval: int = DECODE_LOG_INTERVAL,
        on_interval: OnInterval | None = None,
        adaptive: AdaptiveController | None = None,
        schedule: Schedule = IN_TURN,
        operations: CallsByName | None = None,
        observer: Observer = ignore,
        make_scheduler: MakeScheduler = Scheduler,
        watch: Watch = UNWATCHED,
    ) -> None:
        if adaptive is not None:
            require_room(worker.config, adaptive)
        self.worker = worker
        self.adaptive = adaptive
        self.is_v1 = isinstance(worker, SynchronousWorker)
        self._operations = Direct(OWN_DECISIONS) if operations is None else operations
        self._observer = observer
        self._is_overlapped = schedule.is_overlapped
        require_schedule(worker, schedule)
        self._clips_drafts, self._num_drafts, self._watch = schedule.clips_drafts, schedule.num_drafts, watch
        verification, num_steps = schedule.verification, worker.config.num_steps
        self._budgets: VerifyBudgets | None = None
        if verification is not None and verification.mode is not VerifyMode.STATIC:
            self._budgets = VerifyBudgets(verification, num_steps)
        self.verified = VerifiedCounters()
        self.scheduler: SchedulerProtocol = make_scheduler(
            worker.config,
            worker.sizes,
            max_batch,
            self._operations,
            shuffle_seed,
            not self.is_v1,
            schedule,
            has_pair_keys=has_pair_keys(worker),
            observer=observer,
            window=worker.model.description.window,
            num_ahead=worker.model.description.num_ahead,
        )
        if make_scheduler is not Scheduler:
            require_scheduler(self.scheduler)
        self._ledger: IterationLedger | None = None
        if isinstance(worker, SynchronousWorker):
            self._ledger = IterationLedger(self.scheduler)
            worker.keep_books(self._ledger)
        self._launcher = Launcher(worker, self._operations, schedule)
        self._overlaps = Overlaps(observer)
        self._in_flight: deque[Launched] = deque()
        self._last_sizes: SpecConfig | None = None
        self._last_steps: dict[int, int] = {}
        self.num_iterations = 0
        self.counters = SpecCounters()
        self.positions = PositionCounters()
        self.intervals: list[IntervalStats] = []
        self.decode_log_interval = decode_log_interval
        self.on_interval = on_interval
        self.num_drafts_per_round = drafts_per_round(worker.config.num_draft_tokens, worker.config.num_steps)

    @property
    def has_work(self) -> bool:
        """Whether a request has not ended, or something launched is not resolved."""
        return self.scheduler.has_requests or bool(self._in_flight)

    @property
    def num_in_flight(self) -> int:
        """Forwards that are launched and not resolved."""
        return len(self._in_flight)

    @property
    def priorities(self) -> Priorities | None:
        """What decides about the order of queued work, if priorities do."""
        return self._launcher.priorities

    def submit(self, request: Request) -> None:
        """Queue a request; see ``Scheduler.submit`` and ``check_choice`` for what is rejected.

        Raises
        ------
        WorkerRefusal
            The worker does not take it.
        """
        if isinstance(self.worker, SelectiveWorker):
            try:
                self.worker.check_request(request)
            except SpecRejection as refusal:
                raise WorkerRefusal(refusal) from refusal
        wants_report = (request.top_logprobs is not None or request.returns_hidden_states) and is_telling(self.worker)
        check_choice(self.worker.model.description, wants_report, request)
        request.holding.books = self._operations.host("Books")()
        self.scheduler.submit(request)
        count_request()

    def abort(self, request_id: int) -> None:
        """Ask a request to end; see ``Scheduler.abort``."""
        self._overlaps.abort(request_id, self.scheduler.holders, self._in_flight)
        self.scheduler.abort(request_id)

    def export(self, request: Request) -> Export:
        """Return what may leave of a request: committed text, its slots, and how much each cache has of it.

        What the worker has in these slots is copied by its own ``export``.

        Notes
        -----
        Source: semantics Q.7.
        """
        written = written_lengths(request, self._in_flight)
        num_tokens = max(request.num_fill, written.target + 1)
        export: Export = self._operations.host("export_text")(
            self.scheduler.memory, request.holding, request.fill, written, num_tokens
        )
        return export

    def hand_over(self, request: Request) -> HandOver:
        """Return what another engine needs to go on with a request; see ``hand_over``. Here it goes on too."""
        written = written_lengths(request, self._in_flight)
        return hand_over(self.worker, self.scheduler.memory, request, self.export(request), written)

    def load(self, request: Request, handed_over: HandOver) -> None:
        """Queue a request of which another engine has computed the front; see ``load_of`` for what is rejected."""
        counted = {"loadable_positions": self._operations.host("loadable_positions")}
        load = load_of(self.worker, self.scheduler.memory, request, handed_over, **counted)
        self.submit(request)
        request.loaded = load

    def step(self) -> Iteration | None:
        """Take a turn for prompts and one for the decode batch, as far as there are any.

        Returns
        -------
        iteration : Iteration or None
            The one that was resolved, if one was. Overlapped, it is that of the step before.

        Notes
        -----
        Source: semantics J.2.
        """
        self._overlaps.begin_step(self.scheduler.holders)
        resolved = self._take_turn(self._launch_prefill) + self._take_turn(self._launch_decode)
        if not resolved:
            resolved = self._resolve_down_to(0)
        iterations = [one for one in resolved if isinstance(one, Iteration)]
        return iterations[-1] if iterations else None

    def run_idle_batch(self) -> None:
        """Launch an iteration without requests after all that is launched, as a rank does whose neighbours work.

        Raises
        ------
        SpecRejection
            WRONG_PHASE: a V1 worker whose requests run; they would leave its batch.

        Notes
        -----
        Source: semantics D.10.
        """
        if self.is_v1 and self.scheduler.running:
            because = "V1 keeps those of its last batch alone"
            raise SpecRejection(Reason.WRONG_PHASE, "requests that run", len(self.scheduler.running), "0", because)
        self._take_turn(lambda: self._launcher.decode((), (), None))

    def take_over(self, before: "Engine") -> None:
        """Go on where another engine stops, in its memory: its requests lose what they have and wait here.

        The workers of both have to share their pools and maps. What an engine had in flight is late; of its texts the
        prefix cache keeps what it has, which the next engine may hit.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: the pools of the two differ in size, or this engine has requests in pools of its own.
        """
        old, new = before.scheduler, self.scheduler
        require_same("sizes of the pools", new.sizes, old.sizes, "both engines use the same pools")
        require_same("requests that have a row here", len(new.holders), 0, "their slots are those of other pools")
        for request in old.holders:
            old.retract(request)
        before._resolve_down_to(0)
        new.memory = old.memory
        new.waiting, new.finished = old.waiting, old.finished
        self._last_sizes = before._last_sizes

    def run(self, on_step: Callable[[int, int], None] | None = None) -> list[Request]:
        """Step until every request has ended, report what is left, and return them in order of submission."""
        while self.has_work:
            self.step()
            if on_step is not None:
                left = len(self.scheduler.waiting) + len(self.scheduler.holders)
                on_step(len(self.scheduler.finished), len(self.scheduler.finished) + left)
        if self.counters.num_batches:
            self._report(self.counters.num_batches)
        return sorted(self.scheduler.finished, key=lambda request: request.request_id)

    def _take_turn(self, launch: Callable[[], Launched | None]) -> list[object]:
        """Launch what one turn has, and resolve what was launched before it; return what came back."""
        resolved = self._resolve_down_to(0) if self._must_wait() else self._resolve_early()
        launched = launch()
        if launched is None:
            return resolved
        self._overlaps.launch(launched, self._in_flight)
        self._watch.launch(launched, self.scheduler)
        self._in_flight.append(launched)
        if self._is_overlapped and len(self._in_flight) > 1:
            self._observer(Tag.OVERLAP)
        return resolved + self._resolve_down_to(1 if self._is_overlapped else 0)

    def _resolve_early(self) -> list[object]:
        """Resolve what is launched before the next launch, where the order of events says so; return what came back."""
        if not self._in_flight or not self._launcher.resolves_first(self._in_flight[0]):
            return []
        self._observer(Tag.EARLY_RESULT)
        return self._resolve_down_to(0)

    def _must_wait(self) -> bool:
        """Return whether what is chosen next depends on what the host does with the last result."""
        everyone = [*self.scheduler.holders, *self.scheduler.waiting]
        return self._operations.waits_for_result([request.choice.is_constrained for request in everyone])

    def _launch_prefill(self) -> Launched | None:
        batch = self.scheduler.next_prefill()
        return None if batch is None else self._launcher.prefill(batch)

    def _launch_decode(self) -> Launched | None:
        if self.scheduler.running:
            self.scheduler.retract_for_decode()
        running = self.scheduler.running
        if not running:
            return None
        ranges = self.scheduler.prepare_for_decode()
        config = self.worker.config
        num_steps = None if self.adaptive is None else self.adaptive.num_steps(len(running))
        if self._clips_drafts:
            num_steps = clipped_steps(running, self._in_flight, config, num_steps, self._operations)
        self.num_iterations += 1
        limits = None if self._budgets is None else self._budgets.limits(running)
        if self._num_drafts is None:
            return self._launcher.decode(running, ranges, num_steps, limits)
        most = config.num_steps if num_steps is None else num_steps
        own_steps = check_steps(self._num_drafts(running, most), len(running), most)
        return self._launcher.decode(running, ranges, own_steps, limits)

    def _resolve_down_to(self, num_left: int) -> list[object]:
        """Resolve what was launched first, until no more than so many launches are out; return what came back."""
        resolved = []
        while len(self._in_flight) > num_left:
            launched = self._in_flight.popleft()
            value = self._launcher.wait(launched)
            self._overlaps.begin_result(launched, self.scheduler.holders)
            if launched.chunks is None:
                self._resolve_iteration(launched, require_kind("what an iteration returns", value, Iteration))
            else:
                following = require_kind("what a prefill returns", value, list)
                self._publish(resolve_prefill(launched, following, self._operations, self._observer))
            self._overlaps.end_result(launched, self._in_flight)
            self._watch.result(launched, self.scheduler)
            self.scheduler.finish()
            if not self.scheduler.holders:
                self._overlaps.empty(self._in_flight)
            resolved.append(value)
        return resolved

    def _publish(self, reached: Sequence[tuple[Request, PromptChunk]]) -> None:
        """Leave resolved chunks to the prefix cache, and note whose prompts are through."""
        changed = [given for one, chunk in reached if (given := self.scheduler.publish(one, chunk.end)).slots]
        if changed:
            self._launcher.rewrite(changed)
        self.scheduler.answered([request for request, chunk in reached if chunk.next_token is None])

    def _resolve_iteration(self, launched: Launched, iteration: Iteration) -> None:
        if not launched.requests:
            return
        if self._ledger is not None:
            self._ledger.check_tokens(iteration.tokens)
            for request, reported in zip(launched.requests, reported_by(launched), strict=True):
                request.tell(reported)
        else:
            resolve_iteration(launched, iteration, self._operations, self._observer)
        num_accepted_drafts: list[int] = iteration.num_accepted_drafts.tolist()
        if self.adaptive is not None:
            self.adaptive.observe(num_accepted_drafts)
        self.counters = update_spec_metrics(self.counters, len(launched.requests), sum(num_accepted_drafts))
        own_steps = launched.own_steps(self.worker.config)
        config = sizes_of_iteration(self.worker.config, launched.num_steps)
        proposed = iteration.proposals_at(config, own_steps if self._num_drafts is not None else None)
        self.positions = count_positions(self.positions, proposed.num_drafts, proposed.num_levels, num_accepted_drafts)
        verified = None if iteration.verified is None else iteration.verified.num_verified_drafts()
        self._watch.verified(launched, proposed.num_drafts, num_accepted_drafts)
        count_drafts(proposed.num_drafts, proposed.num_drafts if verified is None else verified, num_accepted_drafts)
        self._count_verified(launched, iteration, proposed.num_drafts)
        self._report(self.decode_log_interval)
        is_changed = config != (self._last_sizes or config)
        self._last_sizes = config
        if is_changed:
            self._overlaps.resize()
        place = (self.worker.model.description, self.worker.sizes)
        tell_iteration(num_accepted_drafts, own_steps, launched.requests, config, is_changed, *place, self._observer)
        if self._num_drafts is not None:
            steps = {request.request_id: own for request, own in zip(launched.requests, own_steps, strict=True)}
            tell_numbers(self._last_steps, steps, self._observer)
            self._last_steps = steps

    def _count_verified(self, launched: Launched, iteration: Iteration, num_drafts: Sequence[int]) -> None:
        """Check what an iteration verified, count it, and keep its survivals for budgets to come."""
        if self._budgets is None or launched.limits is None:
            return
        verified = require_present("verified", iteration.verified)
        num_accepted_drafts = iteration.num_accepted_drafts.tolist()
        verified.check(launched.limits, num_accepted_drafts)
        self.verified = self.verified.count(verified, num_drafts, num_accepted_drafts)
        self._budgets.note(launched.requests, launched.num_retractions, verified)

    def _report(self, interval: int) -> None:
        self.counters, stats = report_decode_stats(self.counters, self.num_drafts_per_round, interval)
        if stats is not None:
            self.intervals.append(stats)
            if self.on_interval is not None:
                self.on_interval(stats, self.counters, self.positions)
