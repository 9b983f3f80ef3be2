"""The loop: admit, prefill, prepare, decode, resolve, finish; and the comparison with autoregressive decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from specsim.assertion import require_present
from specsim.config import PoolSizes, SpecConfig
from specsim.host.metrics import (
    DECODE_LOG_INTERVAL,
    IntervalStats,
    SpecCounters,
    count_batch,
    drafts_per_round,
    interval_rates,
    meta_info,
    report_decode_stats,
    update_spec_metrics,
)
from specsim.host.sampling import LARGEST_SEED, SamplingParameters
from specsim.simulation.autoregressive import decode_alone, decoder_for
from specsim.simulation.sampled import check_sampling
from specsim.simulation.scheduler import Request, Scheduler
from specsim.simulation.synchronous import IterationLedger
from specsim.simulation.worker import Iteration, PromptChunk, SynchronousWorker, Worker

OnInterval = Callable[[IntervalStats, SpecCounters], None]


class Engine:
    """A synchronous engine around one worker; ``intervals`` holds a report every ``decode_log_interval`` batches.

    A V1 worker gets the books, allocates and frees inside its iterations and ends the requests itself. With
    ``prefill_chunk``, prompts run in chunks of at most so many positions, one forward after another.
    """

    def __init__(
        self,
        worker: Worker,
        max_batch: int,
        shuffle_seed: int | None = None,
        decode_log_interval: int = DECODE_LOG_INTERVAL,
        on_interval: OnInterval | None = None,
        prefill_chunk: int | None = None,
    ) -> None:
        self.worker = worker
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
        """Queue a request; see ``Scheduler.submit`` and ``check_sampling`` for what is rejected."""
        check_sampling(self.worker.model.description, request.sampling)
        self.scheduler.submit(request)

    def step(self) -> Iteration | None:
        """Admit what fits, decode one iteration, and finish what has ended; None when nothing runs."""
        admitted, ranges = self.scheduler.admit()
        if admitted:
            self.worker.assign_slots(ranges)
            self.worker.assign_sampling(
                [request.row for request in admitted], [request.sampling for request in admitted]
            )
            self._prefill(admitted)
            self.scheduler.finish()
        running = self.scheduler.running
        if not running:
            return None
        if not self.is_v1:
            self.worker.assign_slots(self.scheduler.prepare_for_decode())
        iteration = self.worker.decode([request.row for request in running])
        self.num_iterations += 1
        if not self.is_v1:
            self._resolve(running, iteration)
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


@dataclass(frozen=True)
class Report:
    """The figures of a run.

    ``accept_rate`` is accepted drafts over proposed drafts; ``tokens_per_verify`` counts the bonus token.
    ``histogram[k]`` is the number of verifies that accepted ``k`` drafts. ``intervals`` has one entry a report of the
    scheduler, ``meta_info`` one a request, under the names that engines print.

    ``lossless`` compares greedy requests with autoregressive decoding and is None without any. ``reproducible``
    compares sampled requests with a second run one at a time, and is None without any or without a worker for it.
    """

    lossless: bool | None
    requests: int
    output_tokens: int
    spec_verify_ct: int
    num_accepted_drafts: int
    accept_rate: float
    tokens_per_verify: float
    worker: str
    device: str
    num_iterations: int = 0
    mismatches: tuple[str, ...] = field(default=())
    histogram: tuple[int, ...] = ()
    intervals: tuple[dict[str, float | int], ...] = ()
    meta_info: tuple[dict[str, Any], ...] = ()
    reproducible: bool | None = None


def simulate(
    worker: Worker,
    requests: Sequence[Request],
    *,
    max_batch: int,
    shuffle_seed: int | None = 0,
    on_step: Callable[[int, int], None] | None = None,
    decode_log_interval: int = DECODE_LOG_INTERVAL,
    on_interval: OnInterval | None = None,
    alone: Worker | None = None,
) -> Report:
    """Run requests to their end; compare greedy ones with autoregressive decoding, sampled ones with a second run.

    Autoregressive decoding is the model's own, in exact arithmetic, or else its prefill on the worker, which is idle
    when all requests have ended.

    Parameters
    ----------
    alone : Worker or None
        A fresh worker on which the sampled requests are decoded again, one at a time.
    """
    engine = Engine(worker, max_batch, shuffle_seed, decode_log_interval, on_interval)
    for request in requests:
        engine.submit(request)
    done = engine.run(on_step)
    engine.scheduler.check_ledger()
    greedy = [request for request in done if request.is_greedy]
    sampled = [request for request in done if not request.is_greedy]
    lost = [line for request in greedy for line in _mismatches(worker, request)]
    changed = [] if alone is None else _changes(alone, sampled)
    num_verifies = sum(request.counters.num_verifies for request in done)
    num_accepted_drafts = sum(request.counters.num_accepted_drafts for request in done)
    rates = interval_rates(num_accepted_drafts, num_verifies, engine.num_drafts_per_round)
    return Report(
        lossless=not lost if greedy else None,
        requests=len(done),
        output_tokens=sum(len(request.output) for request in done),
        spec_verify_ct=num_verifies,
        num_accepted_drafts=num_accepted_drafts,
        accept_rate=rates.accept_rate,
        tokens_per_verify=rates.tokens_per_verify,
        worker=worker.name,
        device=worker.device,
        num_iterations=engine.num_iterations,
        mismatches=(*lost, *changed),
        histogram=tuple(map(sum, zip_longest(*(request.counters.histogram for request in done), fillvalue=0))),
        intervals=tuple(stats.public() for stats in engine.intervals),
        meta_info=tuple(_told(request, engine.num_drafts_per_round) for request in done),
        reproducible=not changed if sampled and alone is not None else None,
    )


def sizes_for(config: SpecConfig, requests: Sequence[Request], max_batch: int) -> PoolSizes:
    """Return pools that hold ``max_batch`` of the largest of these requests."""
    longest = max((len(request.prompt) + request.max_new_tokens for request in requests), default=1)
    row_width = longest + config.num_steps + config.reserve
    return PoolSizes(num_slots=max_batch * row_width + 1, num_rows=max_batch + 1, row_width=row_width)


def requests_from_text(
    text: bytes,
    count: int,
    prompt_length: int,
    max_new_tokens: int,
    eos_token: int | None = None,
    *,
    stop_tokens: Sequence[int] = (),
    stop_strings: Sequence[str] = (),
    min_new_tokens: int = 0,
    sampling: SamplingParameters | None = None,
) -> list[Request]:
    """Cut ``count`` prompts out of a text, evenly spread; byte values are token ids, and each has the next seed."""
    span = max(len(text) - prompt_length, 1)
    return [
        Request(
            request_id=index,
            prompt=list(text[index * span // count : index * span // count + prompt_length]),
            max_new_tokens=max_new_tokens,
            eos_token=eos_token,
            stop_tokens=stop_tokens,
            stop_strings=stop_strings,
            min_new_tokens=min_new_tokens,
            sampling=sampling and replace(sampling, seed=(sampling.seed + index) % (LARGEST_SEED + 1)),
        )
        for index in range(count)
    ]


def _mismatches(worker: Worker, request: Request) -> list[str]:
    """Return at most one line: where the request's output, or else its end, is not the autoregressive one."""
    expected, finish = decode_alone(decoder_for(worker), request.prompt, request.rules)
    if request.output != expected:
        pairs = zip(request.output, expected, strict=False)
        place = next((i for i, (got, wanted) in enumerate(pairs) if got != wanted), -1)
        return [f"request {request.request_id}, output[{place}]: {request.output} is not {expected}"]
    if request.finish != finish:
        return [f"request {request.request_id}, finish: {request.finish} is not {finish}"]
    return []


def _changes(alone: Worker, requests: Sequence[Request]) -> list[str]:
    """Return a line for each sampled request that emits something else when it is decoded again without neighbours."""
    engine = Engine(alone, 1)
    for request in requests:
        engine.submit(request.fresh())
    return [
        f"request {request.request_id}, decoded again: {again.output} is not {request.output}"
        for request, again in zip(requests, engine.run(), strict=True)
        if (again.output, again.finish) != (request.output, request.finish)
    ]


def _told(request: Request, num_drafts_per_round: int) -> dict[str, Any]:
    """Return the request's ``meta_info``: its end, its tokens, and the figures of its speculation."""
    finish = require_present(f"finish of request {request.request_id}", request.finish)
    return {
        "id": request.request_id,
        "finish_reason": {"type": str(finish.reason), "matched": finish.matched},
        "prompt_tokens": len(request.prompt),
        "completion_tokens": len(request.output),
        **meta_info(request.counters, len(request.output), num_drafts_per_round),
    }
