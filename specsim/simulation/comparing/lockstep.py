"""Run the same requests through two workers and stop at the first phase, or score of a token, in which they differ."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from specsim.host.choice import TokenChoice
from specsim.phases import Phase
from specsim.simulation.comparing.history import Divergence, first_divergence
from specsim.simulation.comparing.reported_pairs import ReportedPairs
from specsim.simulation.comparing.request_pairs import IdleTurns, RequestPairs, difference_at_rest, too_late
from specsim.simulation.engine import Engine
from specsim.simulation.logprobs import Reported, check_reported
from specsim.simulation.memory import SlotRange
from specsim.simulation.numbers import Steps
from specsim.simulation.requests import PromptChunk, Request
from specsim.simulation.schedule import IN_TURN, Schedule
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.scheduler_protocol import MakeScheduler
from specsim.simulation.verification import VerifyLimits, limits_by_name
from specsim.simulation.worker import Iteration, Worker, is_mixing, is_scheduling, is_telling

Phases = tuple[Phase, ...]


class RecordingWorker:
    """A V2 worker that keeps what the phases of each iteration handed over until somebody compares it.

    Overlapped, a step may run no iteration, that of the step before, or two. The request-to-token map is read where
    the iteration runs, as on a device, and not at a moment of its own.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.name, self.device = worker.name, worker.device
        self.config, self.model, self.sizes = worker.config, worker.model, worker.sizes
        self.mixes_drafts, self.schedules_verify = is_mixing(worker), is_scheduling(worker)
        self._handed_over: list[Phases] = []

    def assign_slots(self, ranges: Sequence[SlotRange]) -> None:
        """Write allocated slots into the request-to-token map."""
        self._worker.assign_slots(ranges)

    def assign_choices(self, rows: Sequence[int], choices: Sequence[TokenChoice]) -> None:
        """Keep how the tokens of joining requests are chosen."""
        self._worker.assign_choices(rows, choices)

    def prefill(self, rows: Sequence[int], chunks: Sequence[PromptChunk]) -> list[int]:
        """Run chunks of prompts and return the token after each."""
        return self._worker.prefill(rows, chunks)

    def decode(self, rows: Sequence[int], num_steps: Steps = None, limits: VerifyLimits | None = None) -> Iteration:
        """Run one iteration, and keep what its phases handed over."""
        iteration = self._worker.decode(rows, num_steps, **limits_by_name(limits))
        self._handed_over.append(self._worker.phases())
        return iteration

    def phases(self) -> Phases:
        """Return what the phases of the last iteration handed over."""
        return self._worker.phases()

    def state(self) -> dict[str, Any]:
        """Return the carried state by name."""
        return self._worker.state()

    def told(self) -> Reported:
        """Return what is reported of the tokens of the last prefill or iteration: nothing, if nothing is reported."""
        return self._worker.told() if is_telling(self._worker) else ()

    def take(self) -> list[Phases]:
        """Return what was handed over since somebody asked, an entry an iteration."""
        taken, self._handed_over = self._handed_over, []
        return taken


Compare = Callable[[int, Phases, Phases], Divergence | None]


def find_divergence(
    expected: Worker,
    got: Worker,
    requests: Sequence[Request],
    *,
    max_batch: int,
    shuffle_seed: int | None = 0,
    on_step: Callable[[int, int], None] | None = None,
    compare: Compare = first_divergence,
    schedule: Schedule = IN_TURN,
    make_scheduler: MakeScheduler | None = None,
) -> Divergence | None:
    """Return the first difference between two workers, or None if every phase of every iteration agrees.

    Requests that ask for log-probabilities have to get the same, in the same step. A scheduler that is tried
    drives its own worker alone, and ours the other one: then batches, rows and slots may differ, and requests are
    compared in the place of phases (``RequestPairs``), and the memory at the end.

    Parameters
    ----------
    expected, got : Worker
        Workers of one configuration, model and pool sizes; ``expected`` is the one that is believed.
    requests : sequence of Request
        Fresh requests; they are copied.
    on_step : callable or None
        Called after every iteration with the requests that have finished and their total.
    compare : callable
        Takes the number of an iteration and what its phases handed over in both workers.
    schedule : Schedule
        How both are scheduled. Overlapped, both queue the same work and run it in the same order.
    make_scheduler : callable or None
        Makes the scheduler of the worker that is tried; None for ours, which takes both through the same batches.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: a request asks for log-probabilities, and one of the workers tells nothing.
    """
    for worker, request in product((expected, got), requests):
        check_reported(worker.model.description, is_telling(worker), request.choice)
    workers = [RecordingWorker(worker) if schedule.is_overlapped else worker for worker in (expected, got)]
    makers: tuple[MakeScheduler, MakeScheduler] = Scheduler, make_scheduler or Scheduler
    engines = [
        Engine(worker, max_batch, shuffle_seed, schedule=schedule, make_scheduler=make)
        for worker, make in zip(workers, makers, strict=True)
    ]
    if make_scheduler is not None:
        return _first_divergence_apart(engines, requests, schedule, on_step)
    reported = ReportedPairs(expected.model.description)
    for request in requests:
        pair = request.fresh(), request.fresh()
        for engine, one in zip(engines, pair, strict=True):
            engine.submit(one)
        reported.add(*pair)
    left, right = engines
    num_compared = 0
    while left.has_work:
        number = left.num_iterations
        ran = left.step() is not None
        if ran != (right.step() is not None):
            return Divergence(number, "Engine", "step", (), ran, not ran)
        handed_over = [_handed_over(worker, ran) for worker in workers]
        if len(handed_over[0]) != len(handed_over[1]):
            return Divergence(number, "Engine", "iterations", (), *map(len, handed_over))
        for one, other in zip(*handed_over, strict=True):
            divergence = compare(num_compared, one, other)
            if divergence is not None:
                return divergence
            num_compared += 1
        divergence = reported.first_divergence(number)
        if divergence is not None:
            return divergence
        if on_step is not None:
            on_step(len(left.scheduler.finished), len(requests))
    return None


def _first_divergence_apart(
    engines: Sequence[Engine],
    requests: Sequence[Request],
    schedule: Schedule,
    on_step: Callable[[int, int], None] | None,
) -> Divergence | None:
    """Return the first difference between two engines whose schedulers differ."""
    left, right = engines
    pairs = RequestPairs(left.worker.model.description, is_independent=not schedule.clips_drafts)
    idle, turn, num_turns = IdleTurns(), 0, 0
    for request in requests:
        pair = request.fresh(), request.fresh()
        for engine, one in zip(engines, pair, strict=True):
            engine.submit(one)
        pairs.add(*pair)
    while left.has_work or right.has_work:
        for engine in engines:
            engine.step()
        num_turns += left.has_work
        divergence = pairs.first_divergence(right.num_iterations) or idle.note(right) or too_late(turn, num_turns)
        if divergence is not None:
            return divergence
        turn += 1
        if on_step is not None:
            on_step(len(right.scheduler.finished), len(requests))
    return pairs.first_unfinished(turn) or difference_at_rest(turn, left.scheduler, right.scheduler)


def _handed_over(worker: Worker, ran: bool) -> list[Phases]:
    """Return what the phases of each iteration that a step ran handed over."""
    if isinstance(worker, RecordingWorker):
        return worker.take()
    return [worker.phases()] if ran else []
