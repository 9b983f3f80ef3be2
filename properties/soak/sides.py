"""The engine that is tried, and the one that is believed where the two run in lockstep; both change places together."""

from collections.abc import Callable
from typing import Any

from specsim.assertion import require
from specsim.properties.runs.play import Play, loop_on, parts_of
from specsim.properties.soak.setups import Setup, config_of
from specsim.properties.soak.subject import REFERENCE, Subject
from specsim.rejection import Reason, SpecRejection
from specsim.simulation.comparing.history import Divergence, first_divergence
from specsim.simulation.comparing.reported_pairs import ReportedPairs
from specsim.simulation.comparing.request_pairs import IdleTurns, RequestPairs, difference_at_rest
from specsim.simulation.engine import Engine
from specsim.simulation.events import Observer, ignore
from specsim.simulation.models.kv_pool import Reads
from specsim.simulation.requests import Request
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.worker import Iteration, ResizableWorker, SynchronousWorker, Worker


class Sides:
    """One engine, or an implementation's and the reference's in lockstep.

    Lockstep needs iterations that are resolved when they are launched, and drafts that the reference drafts; padded
    iterations run beside plain ones of the reference. Specsim's own scheduler schedules the reference. Beside a
    scheduler of the implementation it takes other turns, so that requests are compared and not phases
    (``RequestPairs``). An engine of other sizes is made of the worker that runs (``ResizableWorker``); ``untried`` says
    why there is none, if there is none. ``drafting`` has the sizes of the drafts of the engines that run, the one that
    is tried first, and ``draftings`` those that engines on these pools may have.
    """

    def __init__(self, subject: Subject, setup: Setup, observer: Observer) -> None:
        worker = subject.worker(setup)
        is_v1 = isinstance(worker, SynchronousWorker)
        self.setup = setup.having(is_overlapped=setup.schedule.is_overlapped and not is_v1)
        self._parts: list[tuple[Subject, Observer]] = [(subject, observer)]
        workers: list[Worker] = [worker]
        has_scheduler = subject.backend.scheduler is not None
        has_twin = subject.has_own_worker(setup) or setup.is_padded or has_scheduler
        has_twin = has_twin and not subject.has_own_drafts(setup)
        if has_twin and (has_scheduler or not self.setup.schedule.is_overlapped):
            workers.append(loop_on(setup, reads=Reads.KEPT))
            self._parts.append((Subject(REFERENCE), ignore))
        self.engines = self._around(workers)
        self.drafting = setup.drafting.sizes
        self._known = {self.drafting: self.engines}
        self._reported = ReportedPairs(worker.model.description)
        self._apart: RequestPairs | None = None
        if has_scheduler and not self.is_alone:
            self._apart = RequestPairs(worker.model.description, is_independent=setup.drafts_are_independent)
        self._idle = IdleTurns()
        is_resizable = isinstance(worker, ResizableWorker)
        self.draftings = (self.drafting, *(setup.others if is_resizable else ()))
        self.untried = None if is_resizable else f"{type(worker).__name__} has no resized(config)"

    @property
    def tried(self) -> Engine:
        """The engine that is tried."""
        return self.engines[0]

    @property
    def all_tried(self) -> list[Engine]:
        """The engine that is tried, and those of other sizes that went before it or may go on."""
        return [engines[0] for engines in self._known.values()]

    @property
    def is_alone(self) -> bool:
        """Whether nothing runs beside the engine that is tried."""
        return len(self.engines) == 1

    @property
    def in_step(self) -> list[Engine]:
        """The engines that take the same turns, that which is tried first."""
        return self.engines if self._apart is None else self.engines[:1]

    def submit(self, requests: list[Request]) -> None:
        """Ask each engine for the same output, by a request of its own."""
        for engine, request in zip(self.engines, requests, strict=True):
            engine.submit(request)
        if self._apart is not None:
            self._apart.add(requests[1], requests[0])
        elif not self.is_alone:
            self._reported.add(requests[1], requests[0])

    def abort(self, number: int) -> None:
        """Ask a request to end."""
        for engine in self.engines:
            engine.abort(number)
        if self._apart is not None:
            self._apart.abort(number)

    def change(self, drafting: Any) -> None:
        """Let engines that draft so go on in the same pools and rows, those of before if there were any.

        Sizes that a worker refuses on pages are not asked for again.
        """
        if drafting not in self._known:
            try:
                self._known[drafting] = self._around([_resized(engine.worker, drafting) for engine in self.engines])
            except SpecRejection as refusal:
                if refusal.reason is not Reason.BAD_CONFIGURATION or self.setup.room.page_size == 1:
                    raise
                self.draftings = tuple(known for known in self.draftings if known != drafting)
                self.untried = f"{type(self.tried.worker).__name__} refuses to be resized: {refusal}"
                return
        before, self.engines = self.engines, self._known[drafting]
        self.drafting = drafting
        for one, other in zip(self.engines, before, strict=True):
            _require_sizes("the worker that goes on", one.worker, drafting)
            one.take_over(other)

    def step(self, take_turn: Callable[[Engine], Iteration | None] = Engine.step) -> Iteration | None:
        """Take the next turns, and compare what their phases handed over and what is reported to users.

        ``take_turn`` is how the engine takes its turn that is tried.
        """
        number = self.tried.num_iterations
        if self._apart is not None:
            iteration = take_turn(self.tried)
            for engine in self.engines[1:]:
                engine.step()
            _require_none(self._apart.first_divergence(number) or self._idle.note(self.tried))
            return iteration
        resolved = [take_turn(self.tried), *(engine.step() for engine in self.engines[1:])]
        if self.is_alone:
            return resolved[0]
        got, expected = ((iteration is not None) for iteration in resolved)
        require(got == expected, f"an iteration after {number}", got, expected)
        phases = [engine.worker.phases() for engine in reversed(self.engines)]
        divergence = first_divergence(number, *phases) if got else None
        _require_none(divergence or self._reported.first_divergence(number))
        return resolved[0]

    def finish(self) -> None:
        """Raise AssertionError unless an engine of another scheduler, run to its end, has ended the same requests."""
        if self._apart is None:
            return
        tried, believed = self.engines
        believed.run()
        number = tried.num_iterations
        _require_none(self._apart.first_divergence(number) or self._apart.first_unfinished(number))
        _require_none(difference_at_rest(number, believed.scheduler, tried.scheduler))

    def _around(self, workers: list[Worker]) -> list[Engine]:
        """Return an engine around each worker."""
        parts = zip(workers, self._parts, strict=True)
        return [engine_around(worker, self.setup, subject, observer) for worker, (subject, observer) in parts]


def engine_around(worker: Worker, setup: Setup, subject: Subject, observer: Observer = ignore) -> Engine:
    """Return an engine of a setup around a worker, with the functions and the scheduler of what is tried."""
    operations = None if subject.is_reference else parts_of(subject.backend)
    make_scheduler = subject.backend.make_scheduler(Scheduler)
    return Play(setup, operations=operations, worker=worker, observer=observer, make_scheduler=make_scheduler).engine


def _require_none(divergence: Divergence | None) -> None:
    if divergence is not None:
        raise AssertionError(f"lockstep: {divergence}")


def _resized(worker: Worker, drafting: Any) -> Worker:
    resized = worker.resized(drafting) if isinstance(worker, ResizableWorker) else worker
    _require_sizes("a resized worker", resized, drafting)
    return resized


def _require_sizes(whose: str, worker: Worker, drafting: Any) -> None:
    config = config_of(drafting)
    require(worker.config == config, f"sizes of {whose}", worker.config, config)
