"""All histories of all cells and all laws, in processes that may die; they count the same in any number of them."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from specsim.conformance.backend import SCHEDULER
from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.isolation.jobs import CannotStart, Done, Job, Limits, Lost
from specsim.conformance.isolation.supervisor import Event, Supervisor
from specsim.properties import unit_of_work
from specsim.properties.matrix.factors import Cell, cells_of
from specsim.properties.matrix.history import shortfalls
from specsim.properties.matrix.laws import LawResult
from specsim.properties.matrix.plan import Plan, Profile, plan_matrix
from specsim.properties.matrix.units import LAW, MatrixLimits, PlainHistory, PlainLaw, refusals_from
from specsim.properties.soak.crashes import shortest_of
from specsim.properties.soak.run import OnProgress
from specsim.simulation.drafted import is_vacuous

RUN_UNIT = "specsim.properties.matrix.units:run_unit"
LOADED = "specsim.properties.matrix.units:loaded"
REFUSALS_UNIT = "specsim.properties.matrix.units:refusals_unit"


@dataclass(frozen=True)
class Task:
    """One history: its cell, the mode of the workers, and its number; or the law of the cell, in place of a number."""

    cell: Cell
    mode: str
    number: int | str


@dataclass(frozen=True)
class Laws:
    """The cells whose law is stated, and how many ways of a request a worker runs by seeds at most; None for all."""

    cells: Sequence[Cell] = ()
    most_seeded: int | None = None


NO_LAWS = Laws()


@dataclass
class CellResult:
    """What the histories of a cell came to in a mode, together; ``failures`` and ``short`` by number of the history.

    After two crashes or hangs the others of a cell are not run: ``num_not_run``. ``drafts`` counts what became of the
    drafts of all engines of its histories, those beside included.
    Those that failed leave no count of leaked slots: they may have stopped in the middle of anything.
    """

    cell: Cell
    mode: str
    num_histories: int = 0
    num_leaked: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    drafts: Counter[str] = field(default_factory=Counter)
    seconds: float = field(default=0.0, compare=False)
    num_not_run: int = 0
    failures: dict[int, unit_of_work.BrokenUnit] = field(default_factory=dict)
    short: dict[int, list[str]] = field(default_factory=dict)

    def add(self, number: int, outcome: Mapping[str, Any]) -> None:
        """Count a history by the outcome of its unit."""
        self.num_histories += 1
        counts = Counter(outcome["reach"])
        self.counts.update(counts)
        self.drafts.update(outcome["drafts"])
        failure = unit_of_work.broken_from(outcome)
        if failure is not None:
            self.failures[number] = failure
            return
        self.num_leaked += outcome["num_leaked"]
        if missing := shortfalls(counts, self.cell):
            self.short[number] = missing

    def take(self, number: int, event: Event) -> None:
        """Count what became of a history: its outcome, that its process crashed or hung, or that it was not run."""
        if isinstance(event, Done):
            self.add(number, event.answer)
            self.seconds += event.answer["duration"]
        elif isinstance(event, Lost):
            self.num_histories += 1
            self.failures[number] = unit_of_work.broken_by(event)
        else:
            self.num_not_run += 1

    @property
    def is_vacuous(self) -> bool:
        """Whether its engines drafted nothing in any history."""
        return is_vacuous(self.num_histories, self.drafts)

    @property
    def num_lost(self) -> int:
        """Histories whose processes crashed or hung."""
        return sum(failure.is_lost for failure in self.failures.values())


@dataclass
class Result:
    """What a matrix found.

    ``busy_seconds`` adds up its units, ``stopped`` says why it ended before its time, ``inconclusive_because`` why one
    without a failure decides too little. ``ran`` counts calls of the functions of the implementation, and histories and
    laws of its workers.
    """

    seed: int
    cells: list[CellResult] = field(default_factory=list)
    laws: list[LawResult] = field(default_factory=list)
    seconds: float = 0.0
    busy_seconds: float = 0.0
    stopped: str = ""
    is_interrupted: bool = False
    inconclusive_because: list[str] = field(default_factory=list)
    ran: Counter[str] = field(default_factory=Counter)

    @property
    def num_histories(self) -> int:
        """Histories of all cells."""
        return sum(one.num_histories for one in self.cells)

    @property
    def num_failures(self) -> int:
        """Histories that failed."""
        return sum(len(one.failures) for one in self.cells)


@dataclass(frozen=True)
class MatrixRun:
    """A run in workers that have loaded what is tried.

    Parameters
    ----------
    supervisor, implementation : Supervisor, str
        Who runs the units, and what they try.
    modes : sequence of str
        How workers run, each in turn.
    limits : Limits
        What a call may take.
    """

    supervisor: Supervisor
    implementation: str
    modes: Sequence[str]
    seed: int
    limits: Limits = field(default_factory=Limits)

    def plan(self, profile: Profile, cells: Sequence[Cell], is_whole: bool = False) -> Plan | unit_of_work.BrokenUnit:
        """Ask the implementation about every cell of a product; who ends the process is a failure with its cell.

        ``is_whole`` says that it is asked about the cells of drafters that it brings, too.
        """
        arguments = (self.implementation, self.modes[0], tuple(cells), is_whole)

        read = partial(refusals_from, cells=cells)
        event = unit_of_work.answer_of(
            self.supervisor, Job(("its plan", 0), REFUSALS_UNIT, arguments, self.limits, read=read)
        )
        if isinstance(event, Lost):
            return unit_of_work.broken_by(event)
        refused, brings = event.answer
        return plan_matrix(refused, profile, [*cells, *(cells_of(brings.drafters) if is_whole else ())], brings)

    def job(self, task: Task, most_seeded: int | None = None, replays: int = 0) -> Job:
        """Return the unit of a task."""
        limits = MatrixLimits(self.seed, task.mode, most_seeded, replays)
        arguments = (self.implementation, task.cell.name, (task.number,), limits)
        read = partial(unit_of_work.checked, kind=PlainLaw if task.number == LAW else PlainHistory)
        return Job((task.cell.name, task), RUN_UNIT, arguments, self.limits, read=read)

    def run(
        self, cells: Sequence[Cell], numbers: Sequence[int], laws: Laws = NO_LAWS, on_progress: OnProgress | None = None
    ) -> Result:
        """Run some histories of every cell in every mode, and go through the laws of some; also if interrupted."""
        started = time.monotonic()
        result = Result(self.seed, [CellResult(cell, mode) for cell in cells for mode in self.modes])
        places = {(one.cell, one.mode): one for one in result.cells}
        tasks = [Task(one.cell, one.mode, number) for one in result.cells for number in numbers]
        tasks += [Task(cell, mode, LAW) for cell in laws.cells for mode in self.modes]
        for task in tasks:
            self.supervisor.submit(self.job(task, laws.most_seeded))

        def dispatch(job: Job) -> Job | str:
            _, task = job.key
            is_lost = task.number != LAW and places[task.cell, task.mode].num_lost >= unit_of_work.MOST_LOSSES
            return f"the cell has crashed or hung {unit_of_work.MOST_LOSSES} times" if is_lost else job

        try:
            for done, event in enumerate(self.supervisor.events(dispatch), 1):
                _take(result, places, event)
                if on_progress is not None:
                    on_progress(event.job.key[0], done, len(tasks))
        except KeyboardInterrupt:
            result.is_interrupted = True
        except CannotStart as error:
            result.stopped = unit_of_work.stopped_by(error)
        _sort(result, tasks)
        result.seconds = time.monotonic() - started
        return result

    def shortest(self, one: CellResult, number: int, replays: int) -> unit_of_work.BrokenUnit:
        """Return the shortest history that was found to fail, in the place of a history that did."""
        unit, failure = self.job(Task(one.cell, one.mode, number), replays=replays), one.failures[number]
        load = (LOADED, (self.implementation, one.mode))
        return shortest_of(failure, self.supervisor, unit, load, replays) or failure


def _take(result: Result, places: Mapping[tuple[Cell, str], CellResult], event: Event) -> None:
    """Count what became of a unit."""
    _, task = event.job.key
    came_to: dict[str, Any] = {"error": unit_of_work.broken_by(event).error} if isinstance(event, Lost) else {}
    if isinstance(event, Done):
        plain, failure = event.answer, unit_of_work.broken_from(event.answer)
        for name, calls in plain["ran"].items():
            result.ran[name] += calls if name in CATALOGUE or name == SCHEDULER else 1
        result.busy_seconds += plain["duration"]
        if task.number == LAW:
            came_to = plain["reach"] | {name: plain[name] for name in ("refused", "drafts")}
            came_to |= {"seconds": plain["duration"], "error": None if failure is None else failure.error}
    if task.number == LAW:
        result.laws.append(LawResult(task.cell, task.mode, **came_to))
    else:
        places[task.cell, task.mode].take(task.number, event)


def _sort(result: Result, tasks: Sequence[Task]) -> None:
    """Bring what ended in any order into the order of the run."""
    order = {(task.cell, task.mode): place for place, task in enumerate(tasks) if task.number == LAW}
    result.laws.sort(key=lambda one: order[one.cell, one.mode])
    for one in result.cells:
        one.failures = dict(sorted(one.failures.items()))
        one.short = dict(sorted(one.short.items()))
