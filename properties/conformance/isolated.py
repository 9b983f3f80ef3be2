"""The suite in processes that may die: who crashes or hangs an operation is named, and the run goes on."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from specsim.conformance.isolation.jobs import Done, Fate, Job, Limits, Lost, Skipped
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.conformance.limits import NO_LIMITS
from specsim.conformance.limits import Limits as DeclaredLimits
from specsim.properties.catalogue import all_properties
from specsim.properties.conformance.budget import SPENT, Budget, rounds_of
from specsim.properties.conformance.crashes import Search, told_loss
from specsim.properties.conformance.report import Failure, PropertyReport, Report, assemble
from specsim.properties.conformance.selection import Described, examples_of, is_runnable, is_selected, reported_names
from specsim.properties.conformance.units import UnitLimits, failure_from, property_named, report_from, together
from specsim.properties.property import Property

RUN_UNIT = "specsim.properties.conformance.units:run_unit"
SMALLEST_CRASH = "specsim.properties.conformance.crashes:smallest_crash"
MOST_LOSSES = 2
"""Crashes and hangs of an operation after which its other properties are not run."""

ELSEWHERE = ("/dev/shm", ".")
"""Where a run keeps things if there is no folder for temporary ones."""

SECONDS_OF_A_SEARCH = 20.0
"""How long a smaller case of a crash is looked for."""


@dataclass(frozen=True)
class Wanted:
    """What is checked, and how much may be spent on it.

    Parameters
    ----------
    properties : tuple of str or None
        Run only these.
    budget : float or None
        Seconds of the whole run; ``spent`` of them are gone when it begins.
    """

    seed: int
    max_examples: int
    operations: tuple[str, ...] | None = None
    properties: tuple[str, ...] | None = None
    slow_examples: int | None = None
    with_models: bool = False
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    budget: float | None = None
    spent: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    is_strict: bool = False


@dataclass(frozen=True)
class Prepared:
    """What a worker says of an implementation once it has loaded it, and of the device it runs on."""

    described: Described
    device: str
    is_interpreted: bool
    uses_gpu: bool
    declared: DeclaredLimits = NO_LIMITS
    version: str = ""


@dataclass(frozen=True)
class Unprepared:
    """Why an implementation cannot be tried, and the exit code that says so."""

    words: str
    code: int


Prepare = Callable[[str], Prepared | Unprepared]
Told = Callable[[Failure], None]


class Run:
    """One run: ``found`` has what each property came to so far, one report a round, ``failures`` those that broke."""

    def __init__(self, wanted: Wanted, prepared: Prepared, prepare: Prepare, folder: Path, on_failure: Told) -> None:
        self.prepared = prepared
        self.described = prepared.described
        self.chosen = [one for one in all_properties() if self._is_chosen(one, wanted)]
        self.found: dict[str, list[PropertyReport]] = {}
        self.failures: dict[str, Failure] = {}
        self._losses: Counter[str] = Counter()
        self._wanted = wanted
        self._prepare = prepare
        self._folder = folder
        self._on_failure = on_failure
        self._searches = count()

    def _is_chosen(self, one: Property, wanted: Wanted) -> bool:
        named = wanted.properties is None or one.name in wanted.properties
        return named and is_selected(one, self.described, wanted.operations, wanted.with_models)

    def jobs(self) -> Iterator[Job]:
        """Yield the units of the run, breadth first where there is a budget, in the order of the suite otherwise."""
        wanted = self._wanted
        examples = {one.name: examples_of(one, wanted.max_examples, wanted.slow_examples) for one in self.chosen}
        order = list(self.chosen)
        if wanted.budget is not None:
            order.sort(key=lambda one: one.is_slow)
        elif wanted.jobs > 1:
            order.sort(key=lambda one: not one.is_slow)
        rounds = {one.name: rounds_of(one, examples[one.name], wanted.budget is not None) for one in order}
        for number in range(max(map(len, rounds.values()), default=0)):
            for one in order:
                if number >= len(rounds[one.name]):
                    continue
                if not is_runnable(one, self.described):
                    self.found[one.name] = [PropertyReport(0, False, missing=True)]
                    continue
                seed = wanted.seed if number == 0 else f"{wanted.seed} {number}"
                limits = UnitLimits(
                    examples=(rounds[one.name][number],),
                    folder=str(self._folder),
                    seed=wanted.seed,
                    versions=wanted.versions,
                    must_reach=len(rounds[one.name]) == 1,
                    is_strict=wanted.is_strict,
                )
                arguments = (self.described.name, one.name, (seed,), limits)
                yield Job((one.name, number), RUN_UNIT, arguments, wanted.limits)

    def dispatch(self, job: Job) -> Job | str:
        """Return a job as it is to run, or why it is not."""
        if job.is_apart:
            return job
        one = property_named(job.arguments[1])
        if one.name in self.failures:
            return "it has failed"
        lost = tuple(name for name, losses in self._losses.items() if losses >= MOST_LOSSES)
        needed = [name for name in lost if name in one.operations]
        if needed and not one.fills_missing:
            return f"{needed[0]} has crashed or hung {MOST_LOSSES} times"
        if "" in lost and one.runs_worker:
            return f"the worker has crashed or hung {MOST_LOSSES} times"
        if not needed:
            return job
        implementation, name, seeds, limits = job.arguments
        return replace(job, arguments=(implementation, name, seeds, replace(limits, without=tuple(needed))))

    def take(self, event: Done | Lost | Skipped) -> Job | None:
        """Count what became of a job; return one that looks for a smaller case of a crash."""
        if isinstance(event, Skipped):
            is_spent = event.words == SPENT
            self._add(event.job.arguments[1], PropertyReport(0, False, False, cut=is_spent, not_run=event.words))
        elif event.job.is_apart:
            self._take_search(event)
        elif isinstance(event, Done):
            name, told = event.job.arguments[1], event.answer["failure"]
            self._add(name, report_from(event.answer))
            if told is not None:
                self._fail(name, failure_from(told))
        elif event.fate is Fate.CUT:
            self._add(event.job.arguments[1], PropertyReport(max(event.example - 1, 0), False, False, cut=True))
        else:
            return self._take_loss(event)
        return None

    def report(self, is_interrupted: bool = False) -> Report:
        """Return what the run came to so far; what did not begin is not run."""
        rest = "interrupted" if is_interrupted else "no examples of it were wanted"
        reports = {
            one.name: together(self.found.get(one.name) or [PropertyReport(0, False, False, not_run=rest)])
            for one in self.chosen
        }
        names = reported_names(self.described, self._wanted.operations, self._wanted.with_models)
        wanted = self._wanted
        if wanted.properties is not None:
            called = {name for one in self.chosen for name in one.operations}
            names = [name for name in names if name in called]
        reported = {name: self.described.has(name) for name in names}
        return assemble(self.described.name, wanted.seed, self.chosen, reports, self.failures, reported, is_interrupted)

    def _add(self, name: str, report: PropertyReport) -> None:
        reports = self.found.setdefault(name, [])
        if report.cut or not (report.not_run and reports):
            reports.append(report)

    def _fail(self, name: str, failure: Failure) -> None:
        self.failures[name] = failure
        self._on_failure(failure)

    def _take_loss(self, lost: Lost) -> Job | None:
        implementation, name, (seed,), limits = lost.job.arguments
        self._add(name, PropertyReport(lost.example, True, False))
        told = told_loss(lost, implementation, name, limits)
        operation = told["operation"] if self.described.has(told["operation"]) else ""
        self._losses[operation] += 1
        if self._losses[operation] > 1 or not lost.example:
            self._fail(name, failure_from(told))
            return None
        bounds = lost.job.limits
        search = Search(
            seed=seed,
            examples=limits.examples[0],
            first=lost.example,
            fate=lost.fate,
            call_seconds=bounds.longest_call or SECONDS_OF_A_SEARCH,
            seconds=SECONDS_OF_A_SEARCH,
            memory=bounds.memory,
            is_interpreted=self.prepared.is_interpreted,
            loads_apart=self.prepared.uses_gpu,
            declared=NO_LIMITS if self._wanted.is_strict else self.prepared.declared,
        )
        arguments = (implementation, name, search, limits, self._prepare)
        most = 2 * search.seconds + 2 * search.call_seconds
        return Job((name, told), SMALLEST_CRASH, arguments, Limits(most, most, None), is_apart=True)

    def _take_search(self, event: Done | Lost) -> None:
        name, told = event.job.key
        smaller = event.answer if isinstance(event, Done) else None
        if smaller is None:
            told = {**told, "message": f"{told['message']}; alone, the case does not do it again"}
        elif smaller["case"] is None and told["case"] is not None:
            smaller = None
        else:
            smaller = {**smaller, "error": told["error"]}
        self._fail(name, failure_from(told if smaller is None else smaller))


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for what a run keeps meanwhile, wherever that can be done, and take it away behind it."""
    with ExitStack() as kept:
        for place in (None, *ELSEWHERE):
            with suppress(OSError):
                folder = tempfile.TemporaryDirectory(prefix="specsim-run-", dir=place, ignore_cleanup_errors=True)
                break
        else:
            folder = tempfile.TemporaryDirectory(prefix="specsim-run-", ignore_cleanup_errors=True)
        yield Path(kept.enter_context(folder))


def check_isolated(
    supervisor: Supervisor,
    wanted: Wanted,
    prepared: Prepared,
    prepare: Prepare,
    on_failure: Told,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Run the suite in the workers of a supervisor.

    Parameters
    ----------
    prepared, prepare : Prepared, callable
        What the supervisor's workers came to when they were made ready, and how.
    on_failure : callable
        Is told each failure when it is found.
    on_progress : callable or None
        Called with the name of a property, how many units are done, and how many there are.

    Returns
    -------
    report : Report
        Also of a run that is interrupted: what it came to so far.
    """
    with run_folder() as folder:
        run = Run(wanted, prepared, prepare, folder, on_failure)
        try:
            jobs = list(run.jobs())
            budget = Budget(wanted.budget, wanted.spent, wanted.jobs, len(jobs))
            for job in jobs:
                supervisor.submit(job)

            def dispatch(job: Job) -> Job | str:
                chosen = budget.dispatch(job)
                return chosen if isinstance(chosen, str) else run.dispatch(chosen)

            for done, event in enumerate(supervisor.events(dispatch), 1):
                search = run.take(event)
                if search is not None:
                    supervisor.submit(search, first=True)
                if on_progress is not None:
                    on_progress(_name_of(event.job, supervisor.running()), min(done, len(jobs)), len(jobs))
        except KeyboardInterrupt:
            return run.report(is_interrupted=True)
        return run.report()


def _name_of(ended: Job, running: list[Job]) -> str:
    name: Any = (running or [ended])[0].key[0]
    return str(name)
