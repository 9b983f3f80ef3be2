"""The loop: admit, prefill, prepare, decode, resolve, finish."""

from collections.abc import Callable, Sequence

from specsim.config import PoolSizes, SpecConfig
from specsim.host.adaptive import AdaptiveController
from specsim.host.metrics import (
    DECODE_LOG_INTERVAL,
    IntervalStats,
    SpecCounters,
    count_batch,
    drafts_per_round,
    report_decode_stats,
    update_spec_metrics,
)
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.sampled import check_sampling
from specsim.simulation.scheduler import Request, Scheduler
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration, PromptChunk, SynchronousWorker, Worker

OnInterval = Callable[[IntervalStats, SpecCounters], None]


class Engine:
    """A synchronous engine around one worker; ``intervals`` holds a report every ``decode_log_interval`` batches.

    A V1 worker gets the books, allocates and frees inside its iterations and ends the requests itself. With
    ``prefill_chunk``, prompts run in chunks of at most so many positions, one forward after another. With ``adaptive``,
    every batch drafts as many steps as the controller says, which observes what was accepted; rates are over the drafts
    of the deepest candidate.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a controller of a tree, or one whose deepest candidate is not what the worker allocates.
    """

    def __init__(
        self,
        worker: Worker,
        max_batch: int,
        shuffle_seed: int | None = None,
        decode_log_interval: int = DECODE_LOG_INTERVAL,
        on_interval: OnInterval | None = None,
        prefill_chunk: int | None = None,
        adaptive: AdaptiveController | None = None,
    ) -> None:
        if adaptive is not None:
            _require_room(worker.config, adaptive)
        self.worker = worker
        self.adaptive = adaptive
        self.prefill_chunk = prefill_chunk
        self.is_v1 = isinstance(worker, SynchronousWorker)
        self.scheduler = Scheduler(worker.config, worker.sizes, max_batch, shuffle_seed, not self.is_v1)
        if isinstance(worker, SynchronousWorker):
            worker.keep_books(IterationLedger(self.scheduler))
        self.num_iterations = 0
        self.counters = SpecCounters()
        self.intervals: list[IntervalStats] = []
        self.decode_log_interval = decode_log_interval
        self.on_interval = on_interval
        self.num_drafts_per_round = drafts_per_round(worker.config.num_draft_tokens, worker.config.num_steps)

    def submit(self, request: Request) -> None:
        """Queue a request; see ``Scheduler.submit`` and ``check_sampling`` for what is rejected.

        Raises
        ------
        SpecRejection
            BAD_CONFIGURATION: a grammar that is complete before the first token.
        """
        if request.grammar is not None and request.grammar().is_terminated():
            raise SpecRejection(
                Reason.BAD_CONFIGURATION,
                what="grammar",
                got="a complete text",
                expected="one that goes on",
                because="a request outputs at least one token",
            )
        check_sampling(self.worker.model.description, request.sampling)
        self.scheduler.submit(request)

    def step(self) -> Iteration | None:
        """Admit what fits, decode one iteration, and finish what has ended; None when nothing runs."""
        admitted, ranges = self.scheduler.admit()
        if admitted:
            self.worker.assign_slots(ranges)
            self.worker.assign_choices([request.row for request in admitted], [request.choice for request in admitted])
            self._prefill(admitted)
            self.scheduler.finish()
        running = self.scheduler.running
        if not running:
            return None
        if not self.is_v1:
            self.worker.assign_slots(self.scheduler.prepare_for_decode())
        num_steps = None if self.adaptive is None else self.adaptive.num_steps(len(running))
        iteration = self.worker.decode([request.row for request in running], num_steps)
        self.num_iterations += 1
        if not self.is_v1:
            self._resolve(running, iteration)
        if self.adaptive is not None:
            self.adaptive.observe(iteration.num_accepted_drafts.tolist())
        num_accepted_drafts = int(iteration.num_accepted_drafts.sum())
        self.counters = update_spec_metrics(self.counters, len(running), num_accepted_drafts)
        self._report(self.decode_log_interval)
        self.scheduler.finish()
        return iteration

    def run(self, on_step: Callable[[int, int], None] | None = None) -> list[Request]:
        """Step until every request has ended, report what is left, and return them in order of submission."""
        while self.scheduler.waiting or self.scheduler.running:
            self.step()
            if on_step is not None:
                left = len(self.scheduler.waiting) + len(self.scheduler.running)
                on_step(len(self.scheduler.finished), len(self.scheduler.finished) + left)
        if self.counters.num_batches:
            self._report(self.counters.num_batches)
        return sorted(self.scheduler.finished, key=lambda request: request.request_id)

    def _prefill(self, admitted: Sequence[Request]) -> None:
        """Run the prompts of joining requests, chunk by chunk, and append the first output tokens."""
        longest = max(len(request.prompt) for request in admitted)
        width = self.prefill_chunk or longest
        for start in range(0, longest, width):
            reached = [request for request in admitted if start < len(request.prompt)]
            chunks = [PromptChunk(one.prompt, start, min(start + width, len(one.prompt))) for one in reached]
            following = self.worker.prefill([request.row for request in reached], chunks)
            for request, chunk, token in zip(reached, chunks, following, strict=True):
                if chunk.next_token is None:
                    request.append([token])

    def _resolve(self, running: Sequence[Request], iteration: Iteration) -> None:
        batch = count_batch(
            [request.counters for request in running],
            iteration.num_accepted_drafts.tolist(),
            [request.finish is not None for request in running],
        )
        for place, request in enumerate(running):
            num_tokens = int(iteration.num_accepted_tokens[place])
            request.num_committed += num_tokens
            request.counters = batch.requests[place]
            request.append(iteration.tokens[place, :num_tokens].tolist())

    def _report(self, interval: int) -> None:
        self.counters, stats = report_decode_stats(self.counters, self.num_drafts_per_round, interval)
        if stats is not None:
            self.intervals.append(stats)
            if self.on_interval is not None:
                self.on_interval(stats, self.counters)


def sizes_for(config: SpecConfig, requests: Sequence[Request], max_batch: int) -> PoolSizes:
    """Return pools that hold ``max_batch`` of the largest of these requests."""
    longest = max((len(request.prompt) + request.max_new_tokens for request in requests), default=1)
    row_width = longest + config.num_steps + config.reserve
    return PoolSizes(num_slots=max_batch * row_width + 1, num_rows=max_batch + 1, row_width=row_width)


def _require_room(config: SpecConfig, adaptive: AdaptiveController) -> None:
    """Raise unless a worker can draft every candidate of a controller."""
    deepest = max(adaptive.config.candidates)
    if config.topk != 1 or config.num_steps != deepest:
        raise SpecRejection(
            Reason.BAD_CONFIGURATION,
            what="(topk, num_steps)",
            got=(config.topk, config.num_steps),
            expected=str((1, deepest)),
            because="the number of steps of a chain adapts, and the worker allocates for the most",
        )
