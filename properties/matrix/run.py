"""All histories of all cells and all laws, in turn or in several processes; they count the same either way."""

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from specsim.properties.matrix.factors import Cell
from specsim.properties.matrix.history import Tried, shortfalls, try_history
from specsim.properties.matrix.laws import LawResult, try_law
from specsim.properties.matrix.subjects import load_subject
from specsim.properties.soak.history import Failure
from specsim.properties.soak.run import OnProgress
from specsim.properties.soak.subject import Subject


@dataclass(frozen=True)
class Task:
    """One history: its cell, the mode of the workers, and its number; or the law of the cell, which has none."""

    cell: Cell
    mode: str
    number: int | None


@dataclass(frozen=True)
class Laws:
    """The cells whose law is stated, and how many ways of a request a worker runs by seeds at most; None for all."""

    cells: Sequence[Cell] = ()
    most_seeded: int | None = None


NO_LAWS = Laws()


@dataclass
class CellResult:
    """What the histories of a cell came to in a mode, together; ``failures`` and ``short`` by number of the history.

    Those that failed leave no count of leaked slots: they may have stopped in the middle of anything.
    """

    cell: Cell
    mode: str
    num_histories: int = 0
    num_leaked: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, Failure] = field(default_factory=dict)
    short: dict[int, list[str]] = field(default_factory=dict)

    def add(self, number: int, tried: Tried) -> None:
        """Count a history."""
        self.num_histories += 1
        self.counts.update(tried.counts)
        if tried.failure is not None:
            self.failures[number] = tried.failure
            return
        self.num_leaked += tried.num_leaked
        if missing := shortfalls(tried.counts, self.cell):
            self.short[number] = missing


@dataclass
class Result:
    """What a matrix came to."""

    seed: int
    cells: list[CellResult] = field(default_factory=list)
    laws: list[LawResult] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def num_histories(self) -> int:
        """Histories of all cells."""
        return sum(one.num_histories for one in self.cells)

    @property
    def num_failures(self) -> int:
        """Histories that failed, or came to too little."""
        return sum(len(one.failures) + len(one.short) for one in self.cells)


def run_matrix(
    subjects: Mapping[str, Subject],
    implementation: str,
    cells: Sequence[Cell],
    numbers: Sequence[int],
    seed: int,
    jobs: int,
    on_progress: OnProgress | None = None,
    laws: Laws = NO_LAWS,
) -> Result:
    """Run some histories of every cell in every mode, and go through the laws of some.

    Parameters
    ----------
    subjects, implementation : mapping, str
        What is tried, by mode, and its name, by which other processes load it.
    """
    started = time.monotonic()
    result = Result(seed, [CellResult(cell, mode) for cell in cells for mode in subjects])
    places = {(one.cell, one.mode): one for one in result.cells}
    tasks = [Task(one.cell, one.mode, number) for one in result.cells for number in numbers]
    tasks += [Task(cell, mode, None) for cell in laws.cells for mode in subjects]
    most = laws.most_seeded
    tried = (
        _in_processes(implementation, seed, tasks, most, jobs) if jobs > 1 else _in_turn(subjects, seed, tasks, most)
    )
    for done, (task, one) in enumerate(zip(tasks, tried, strict=True), 1):
        if isinstance(one, LawResult):
            result.laws.append(one)
        elif task.number is not None:
            places[task.cell, task.mode].add(task.number, one)
        if on_progress is not None:
            on_progress(task.cell.name, done, len(tasks))
    result.seconds = time.monotonic() - started
    return result


def _try(subject: Subject, seed: int, task: Task, most_seeded: int | None) -> Tried | LawResult:
    if task.number is None:
        return try_law(subject, task.cell, task.mode, seed, most_seeded)
    return try_history(subject, task.cell, seed, task.number)


def _in_turn(
    subjects: Mapping[str, Subject], seed: int, tasks: Sequence[Task], most_seeded: int | None
) -> Iterator[Tried | LawResult]:
    for task in tasks:
        yield _try(subjects[task.mode], seed, task, most_seeded)


def _in_processes(
    implementation: str, seed: int, tasks: Sequence[Task], most_seeded: int | None, jobs: int
) -> Iterator[Tried | LawResult]:
    """Yield what every task came to, in their order."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _prepare, (sys.path, implementation))
    try:
        for future in [pool.submit(_run, seed, task, most_seeded) for task in tasks]:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare(path: list[str], implementation: str) -> None:
    """Note what is tried; stdout is the parent's."""
    global _IMPLEMENTATION
    sys.path[:] = path
    sys.stdout = sys.stderr
    _IMPLEMENTATION = implementation


def _run(seed: int, task: Task, most_seeded: int | None) -> Tried | LawResult:
    if task.mode not in _SUBJECTS:
        _SUBJECTS[task.mode] = load_subject(_IMPLEMENTATION, task.mode)
    return _try(_SUBJECTS[task.mode], seed, task, most_seeded)


_IMPLEMENTATION = ""
_SUBJECTS: dict[str, Subject] = {}
