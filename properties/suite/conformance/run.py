"""One run of the suite in processes that may die: its jobs, and what becomes of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from specsim.conformance.brought import Brought
from specsim.conformance.catalogue import CATALOGUE
from specsim.conformance.isolation.jobs import Done, Fate, Job, Limits, Lost, Skipped
from specsim.operations import RECORDS
from specsim.properties.property import Property
from specsim.properties.suite.catalogue import all_properties, property_named
from specsim.properties.suite.conformance import selection, units
from specsim.properties.suite.conformance.budget import SPENT, rounds_of
from specsim.properties.suite.conformance.crashes import Search, plain_crash
from specsim.properties.suite.conformance.report import GROUP, Behaviour, Failure, PropertyReport, Report, assemble
from specsim.properties.suite.conformance.unpromised import behaviour_from
from specsim.properties.suite.conformance.wanted import Prepared, Wanted
from specsim.properties.suite.small_trees.every import cases_of, cut_in_words, operation_of, property_of
from specsim.properties.unit_of_work import MOST_LOSSES, checked

RUN_UNIT = "specsim.properties.suite.conformance.units:run_unit"
SMALLEST_CRASH = "specsim.properties.suite.conformance.crashes:smallest_crash"
SMALLEST_CRASH_OF_TREES = "specsim.properties.suite.conformance.small_tree_crashes:smallest_crash"
RUN_UNPROMISED = "specsim.properties.suite.conformance.unpromised:run_unit"
SECONDS_OF_A_SEARCH = 20.0
"""How long a smaller case of a crash is looked for."""

MOST_SEARCHES = 4
"""How many times as long that may take where others have the machine."""

Prepare = Callable[[str], object]
Reported = Callable[[Failure], None]


class Run:
    """One run: ``found`` has what each property came to so far, one report a round, ``failures`` those that broke."""

    def __init__(
        self, wanted: Wanted, prepared: Prepared, prepare: Prepare, folder: Path, on_failure: Reported
    ) -> None:
        self.prepared = prepared
        self.described = prepared.described
        self.chosen = [one for one in all_properties() if self._is_chosen(one, wanted)]
        self.found: dict[str, list[PropertyReport]] = {}
        self.failures: dict[str, Failure] = {}
        self.unpromised: dict[str, Behaviour] = {}
        self._losses: Counter[str] = Counter()
        self._wanted = wanted
        self._prepare = prepare
        self._folder = folder
        self._on_failure = on_failure
        self._searching: dict[str, dict[str, Any]] = {}
        self._examples: dict[str, int] = {}
        self._cut_early: set[str] = set()

    def _is_chosen(self, one: Property, wanted: Wanted) -> bool:
        if wanted.nodes is not None:
            return one.name in map(property_of, wanted.operations or ())
        named = wanted.properties is None or one.name in wanted.properties
        return named and selection.is_selected(one, self.described, wanted.operations, wanted.with_models)

    def jobs(self) -> Iterator[Job]:
        """Yield the units of the run: whole runs last, but first where many processes share them and no time ends.

        Where there is a budget they are yielded breadth first, and after them those whose loop is the reference's.
        """
        wanted = self._wanted
        examples = {
            one.name: max(
                selection.examples_of(one, wanted.max_examples, wanted.slow_examples),
                selection.least_examples_of(one, self.described),
            )
            for one in self.chosen
        }
        self._examples = examples
        is_slow_first = wanted.budget is None and wanted.jobs > 1
        order = sorted(self.chosen, key=lambda one: one.is_slow is not is_slow_first)
        is_spread = wanted.budget is not None and wanted.nodes is None
        rounds = {one.name: rounds_of(one, examples[one.name], is_spread) for one in order}
        turns = [(number, one) for one in order for number in range(len(rounds[one.name]))]
        if wanted.budget is not None:
            turns.sort(key=lambda turn: (selection.is_borrowed(turn[1], self.described), turn[0]))
        for number, one in turns:
            if not selection.is_runnable(one, self.described):
                self.found[one.name] = [PropertyReport(0, False, missing=True)]
                continue
            seed = wanted.seed if number == 0 else f"{wanted.seed} {number}"
            limits = units.UnitLimits(
                examples=(rounds[one.name][number],),
                folder=str(self._folder),
                seed=wanted.seed,
                versions=wanted.versions,
                must_reach=len(rounds[one.name]) == 1,
                without=wanted.without,
                is_strict=wanted.is_strict,
                most=wanted.most,
                nodes=wanted.nodes,
            )
            arguments = (self.described.name, one.name, (seed,), limits)
            yield Job((one.name, number), RUN_UNIT, arguments, wanted.limits, read=units.outcome_from)
        yield from self._jobs_unpromised()

    def _jobs_unpromised(self) -> Iterator[Job]:
        """Yield what tries operations with input that they do not promise to refuse: last, as it may do any harm."""
        wanted, described = self._wanted, self.described
        if described.rejects or wanted.properties is not None or wanted.nodes is not None:
            return
        limits = units.UnitLimits((), str(self._folder), wanted.seed, is_strict=wanted.is_strict, most=wanted.most)
        for name in selection.reported_names(described, wanted.operations, wanted.with_models):
            if name in RECORDS and described.has(name) and name not in wanted.without:
                arguments = (described.name, name, wanted.max_examples, limits)
                key = (f"{GROUP}.{name}", 0)
                yield Job(key, RUN_UNPROMISED, arguments, wanted.limits, read=behaviour_from)

    def dispatch(self, job: Job) -> Job | str:
        """Return a job as it is to run, or why it is not."""
        if job.is_apart or job.function == RUN_UNPROMISED:
            return job
        one = property_named(job.arguments[1])
        if one.name in self.failures or one.name in self._searching:
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
        return replace(
            job, arguments=(implementation, name, seeds, replace(limits, without=(*limits.without, *needed)))
        )

    def take(self, event: Done | Lost | Skipped) -> Job | None:
        """Count what became of a job; return one to run as well.

        That is a search for a smaller case of a crash, or the job itself: where its turn ended within the first example
        of its property, it gets a longer one once all others had theirs.
        """
        if event.job.function == RUN_UNPROMISED:
            self.unpromised[event.job.arguments[1]] = _behaviour_after(event)
        elif event.job.is_apart:
            self._take_search(event)
        elif isinstance(event, Skipped):
            is_spent = event.words == SPENT
            self._add(event.job.arguments[1], PropertyReport(0, False, False, cut=is_spent, not_run=event.words))
        elif isinstance(event, Done):
            _, name, _, limits = event.job.arguments
            report = units.report_from(event.answer)
            if report.cut and self._may_run_again(event.job, report.examples):
                return event.job
            self._add(name, report)
            if event.answer["failure"] is not None:
                self._fail(name, replace(units.failure_from(event.answer["failure"]), without=limits.without))
        elif event.fate is Fate.CUT:
            name, nodes = event.job.arguments[1], self._wanted.nodes
            examples = self._count_examples(name, max(event.example - 1, 0))
            if self._may_run_again(event.job, examples):
                return event.job
            undecided = "" if nodes is None else cut_in_words(operation_of(name), examples, nodes)
            self._add(name, PropertyReport(examples, False, False, inconclusive=undecided, cut=True))
        elif event.fate is Fate.RAISED:
            implementation, name, _, limits = event.job.arguments
            self._add(name, self._failed_at(name, event.example))
            self._fail(name, units.failure_from(plain_crash(implementation, name, event, limits)))
        else:
            return self._take_loss(event)
        return None

    def _may_run_again(self, job: Job, examples: int) -> bool:
        """Tell whether a job was cut by its turn for the first time, and its property has no example yet."""
        name, number = job.key
        if self._wanted.budget is None or number or examples or name in self._cut_early:
            return False
        self._cut_early.add(name)
        return True

    def _count_examples(self, name: str, number: int) -> int:
        """Return how many cases some examples of a property are: of small trees each is a call of many."""
        if self._wanted.nodes is None:
            return number
        limits, is_interpreted = self._wanted.limits_of(self.prepared), self.prepared.is_interpreted
        return cases_of(operation_of(name), limits, self._wanted.nodes, number, interpreted=is_interpreted)

    def _failed_at(self, name: str, number: int) -> PropertyReport:
        """Return the report of a property of which an example ended its process."""
        examples = self._count_examples(name, number)
        return PropertyReport(examples, True, False, first_failed=examples or None)

    def report(self, why_ended: str = "", is_interrupted: bool = False) -> Report:
        """Return what the run came to so far; what did not begin is not run."""
        for name, plain in list(self._searching.items()):
            self._end_search(name, plain)
        rest = PropertyReport(
            0, False, False, cut=bool(why_ended), not_run=why_ended or "no examples of it were wanted"
        )
        if why_ended and not is_interrupted:
            # NOTE: what was not tried could have failed, also of a property that got some of its examples.
            for name in self.found.keys() - self.failures.keys():
                self.found[name].append(PropertyReport(0, False, False, inconclusive=why_ended))
        reports = {
            one.name: replace(
                units.together(self.found.get(one.name) or [rest]),
                is_borrowed=selection.is_borrowed(one, self.described),
            )
            for one in self.chosen
        }
        wanted, described = self._wanted, self.described
        names = selection.reported_names(described, wanted.operations, wanted.with_models)
        if wanted.properties is not None:
            asked = _asked(self.chosen, reports, names)
            names = [name for name in names if name in asked]
        reported = {name: described.has(name) and name not in wanted.without for name in names}
        functions = tuple(name for name in CATALOGUE if described.has(name))
        return assemble(
            described.name,
            wanted.seed,
            self.chosen,
            reports,
            self.failures,
            reported,
            is_interrupted,
            brings=Brought(described.name, functions, described.makes, described.alike, described.drafters),
            must_play=self._must_play(),
            unpromised=self.unpromised,
            is_strict=wanted.is_strict,
            must_reach=wanted.must_reach,
        )

    def _must_play(self) -> tuple[str, ...]:
        """Return the names of the workers that the run had to play, and of the scheduler; some if some were asked for.

        In a quick look those have none that only laws play which are as long as many others, if there is more to try.
        """
        wanted, makes = self._wanted, self.described.makes
        if wanted.operations is not None or wanted.properties is not None:
            return ()
        played = {name for one in self.chosen if self._examples.get(one.name) for name in one.plays}
        unplayed = {name for one in self.chosen for name in one.plays} - played if self.described.functions else set()
        return tuple(name for name in makes if name not in unplayed)

    def _add(self, name: str, report: PropertyReport) -> None:
        reports = self.found.setdefault(name, [])
        if report.cut or not (report.not_run and reports):
            reports.append(report)

    def _fail(self, name: str, failure: Failure) -> None:
        # NOTE: where jobs run side by side, two rounds of a property may fail.
        if name not in self.failures:
            self.failures[name] = failure
            self._on_failure(failure)

    def _take_loss(self, lost: Lost) -> Job | None:
        implementation, name, (seed,), limits = lost.job.arguments
        self._add(name, self._failed_at(name, lost.example))
        plain = plain_crash(implementation, name, lost, limits)
        operation = plain["operation"] if self.described.has(plain["operation"]) else ""
        self._losses[operation] += 1
        if name in self._searching:
            return None
        if self._losses[operation] > 1 or not lost.example:
            self._fail(name, units.failure_from(plain))
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
            declared=self._wanted.limits_of(self.prepared),
        )
        self._searching[name] = plain
        arguments = (implementation, name, search, limits, self._prepare)
        most = MOST_SEARCHES * (search.seconds + search.call_seconds)
        read = partial(checked, kind=units.PlainCase | None)
        function = SMALLEST_CRASH if self._wanted.nodes is None else SMALLEST_CRASH_OF_TREES
        return Job((name, 0), function, arguments, Limits(most, most, None), is_apart=True, read=read)

    def _take_search(self, event: Done | Lost | Skipped) -> None:
        name, _ = event.job.key
        plain, smaller = self._searching[name], event.answer if isinstance(event, Done) else None
        if isinstance(event, Done) and smaller is None:
            plain = {**plain, "message": f"{plain['message']}; alone, the case does not do it again"}
        elif smaller is not None and (smaller["case"] is not None or plain["case"] is None):
            plain = {**smaller, "error": plain["error"]}
        self._end_search(name, plain)

    def _end_search(self, name: str, plain: dict[str, Any]) -> None:
        del self._searching[name]
        self._fail(name, units.failure_from(plain))


def _behaviour_after(event: Done | Lost | Skipped) -> Behaviour:
    """Return what an operation did with input that the contract refuses; who dies of it has left every bound."""
    if isinstance(event, Done):
        return behaviour_from(event.answer)
    if isinstance(event, Skipped):
        return Behaviour(0, not_run=event.words)
    if event.fate is Fate.CUT:
        return Behaviour(event.example, not_run=SPENT)
    return Behaviour(event.example, strayed=f"{event.fate.lower()}: {' '.join(event.words.split())}")


def _asked(chosen: Sequence[Property], reports: Mapping[str, PropertyReport], names: Sequence[str]) -> set[str]:
    """Return which functions properties that were asked for by name must call.

    A law of whole runs is about more functions than a few of its examples call, and those of a worker call theirs
    unseen; a property that calls none of its functions and plays no worker is vain.
    """
    about = {one.name: set(one.operations).intersection(names) for one in chosen}
    tried = {name: these for name, these in about.items() if reports[name].examples}
    asked = set().union(*about.values()).difference(*tried.values())
    for name, these in tried.items():
        called = these.difference(reports[name].uncalled)
        asked |= called if called or any(reports[name].ran.values()) else these
    return asked
