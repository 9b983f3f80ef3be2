"""The loop: admit, prefill, prepare, decode, resolve, finish; and the comparison with autoregressive decoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specsim.config import PoolSizes, SpecConfig
from specsim.simulation.language_models import greedy_decode
from specsim.simulation.scheduler import Request, Scheduler
from specsim.simulation.worker import Iteration, Worker


class Engine:
    """A synchronous engine around one worker."""

    def __init__(self, worker: Worker, max_batch: int, shuffle_seed: int | None = None) -> None:
        self.worker = worker
        self.scheduler = Scheduler(worker.config, worker.sizes, max_batch, shuffle_seed)
        self.num_iterations = 0

    def submit(self, request: Request) -> None:
        """Queue a request; see ``Scheduler.submit`` for what is rejected."""
        self.scheduler.submit(request)

    def step(self) -> Iteration | None:
        """Admit what fits, decode one iteration, and finish what has ended; None when nothing runs."""
        admitted, ranges = self.scheduler.admit()
        if admitted:
            self.worker.assign_slots(ranges)
            first = self.worker.prefill([request.row for request in admitted], [request.prompt for request in admitted])
            for request, token in zip(admitted, first, strict=True):
                request.append([token])
            self.scheduler.finish()
        running = self.scheduler.running
        if not running:
            return None
        self.worker.assign_slots(self.scheduler.prepare_for_decode())
        iteration = self.worker.decode([request.row for request in running])
        self.num_iterations += 1
        self._resolve(running, iteration)
        self.scheduler.finish()
        return iteration

    def run(self, on_step: Callable[[int, int], None] | None = None) -> list[Request]:
        """Step until every request has ended and return them in order of submission."""
        while self.scheduler.waiting or self.scheduler.running:
            self.step()
            if on_step is not None:
                left = len(self.scheduler.waiting) + len(self.scheduler.running)
                on_step(len(self.scheduler.finished), len(self.scheduler.finished) + left)
        return sorted(self.scheduler.finished, key=lambda request: request.request_id)

    def _resolve(self, running: Sequence[Request], iteration: Iteration) -> None:
        for place, request in enumerate(running):
            num_tokens = int(iteration.num_accepted_tokens[place])
            request.num_committed += num_tokens
            request.num_verifies += 1
            request.num_accepted_drafts += int(iteration.num_accepted_drafts[place])
            request.append(iteration.tokens[place, :num_tokens].tolist())


@dataclass(frozen=True)
class Report:
    """The figures of a run.

    ``accept_rate`` is accepted drafts over proposed drafts; ``tokens_per_verify`` counts the bonus token.
    """

    lossless: bool
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


def simulate(
    worker: Worker,
    requests: Sequence[Request],
    *,
    max_batch: int,
    shuffle_seed: int | None = 0,
    on_step: Callable[[int, int], None] | None = None,
) -> Report:
    """Run requests to their end and compare every output with autoregressive decoding of the same model."""
    engine = Engine(worker, max_batch, shuffle_seed)
    for request in requests:
        engine.submit(request)
    done = engine.run(on_step)
    engine.scheduler.check_ledger()
    mismatches = []
    for request in done:
        expected = greedy_decode(worker.model, request.prompt, request.max_new_tokens, request.eos_token)
        if request.output != expected:
            place = next(
                (i for i, pair in enumerate(zip(request.output, expected, strict=False)) if pair[0] != pair[1]), -1
            )
            mismatches.append(f"request {request.request_id}, output[{place}]: {request.output} is not {expected}")
    num_verifies = sum(request.num_verifies for request in done)
    num_accepted_drafts = sum(request.num_accepted_drafts for request in done)
    num_proposed = num_verifies * (worker.config.num_draft_tokens - 1)
    return Report(
        lossless=not mismatches,
        requests=len(done),
        output_tokens=sum(len(request.output) for request in done),
        spec_verify_ct=num_verifies,
        num_accepted_drafts=num_accepted_drafts,
        accept_rate=num_accepted_drafts / num_proposed if num_proposed else 0.0,
        tokens_per_verify=(num_accepted_drafts + num_verifies) / num_verifies if num_verifies else 0.0,
        worker=worker.name,
        device=worker.device,
        num_iterations=engine.num_iterations,
        mismatches=tuple(mismatches),
    )


def sizes_for(config: SpecConfig, requests: Sequence[Request], max_batch: int) -> PoolSizes:
    """Return pools that hold ``max_batch`` of the largest of these requests."""
    longest = max((len(request.prompt) + request.max_new_tokens for request in requests), default=1)
    row_width = longest + config.num_steps + config.reserve
    return PoolSizes(num_slots=max_batch * row_width + 1, num_rows=max_batch + 1, row_width=row_width)


def requests_from_text(
    text: bytes, count: int, prompt_length: int, max_new_tokens: int, eos_token: int | None = None
) -> list[Request]:
    """Cut ``count`` prompts out of a text, evenly spread; byte values are token ids."""
    span = max(len(text) - prompt_length, 1)
    return [
        Request(
            request_id=index,
            prompt=list(text[index * span // count : index * span // count + prompt_length]),
            max_new_tokens=max_new_tokens,
            eos_token=eos_token,
        )
        for index in range(count)
    ]
