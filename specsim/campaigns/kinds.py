"""How a unit of each kind is run on its node: as the command does that runs such units on one machine."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from specsim.campaigns.units import Broken, Kind, Outcome, Unit, sort_of
from specsim.campaigns.workshop import Workshop
from specsim.conformance.cases import write_case
from specsim.conformance.isolation.jobs import CannotStart, Done, Job
from specsim.properties.matrix.factors import cell_named
from specsim.properties.matrix.run import NO_LAWS, Laws, MatrixRun
from specsim.properties.matrix.verdict import complaints_of, shortfalls_of
from specsim.properties.soak.run import Soak, Soaked
from specsim.properties.soak.verdict import complaints
from specsim.properties.suite.conformance.isolated import check_isolated, run_folder
from specsim.properties.suite.conformance.report import Failure
from specsim.properties.suite.conformance.smaller import weigh
from specsim.properties.suite.conformance.units import tell, tell_without_case
from specsim.properties.suite.conformance.wanted import Wanted
from specsim.properties.suite.hunt.units import HuntLimits, PlainHunt
from specsim.properties.unit_of_work import BrokenUnit, answer_of, broken_by, broken_from, checked, stopped_by
from specsim.rejection import SpecRejection

RUN_MUTANT = "specsim.properties.suite.hunt.units:run_unit"
STOPPED = stopped_by(CannotStart(""))
"""How a run says that it ended before its time."""

Tried = tuple[Outcome, dict[str, bytes]]


def try_unit(workshop: Workshop, unit: Unit, known: frozenset[str]) -> Tried:
    """Run a unit, and return what it came to, with the files of its cases.

    Failures of whole runs that are ``known`` are not made smaller again: that takes as long as hundreds of runs.
    """
    return TRIED_BY[unit.kind](workshop, unit, known)


def _try_property(workshop: Workshop, unit: Unit, known: frozenset[str]) -> Tried:
    """Run a property with some seeds, each as ``specsim check --seed`` does, until one finds a failure."""
    terms, examples, seconds, undecided = workshop.terms, 0, 0.0, ""
    reach: dict[str, int] = {}
    failures: list[Failure] = []
    broken: tuple[Broken, ...] = ()
    files: dict[str, bytes] = {}
    for seed in unit.seeds:
        wanted = Wanted(
            seed=seed,
            max_examples=terms.examples,
            properties=(unit.name,),
            with_models=True,
            limits=terms.limits,
            versions=terms.versions,
        )
        report = check_isolated(workshop.supervisor, wanted, workshop.prepared, terms.prepare, failures.append)
        one = report.properties[unit.name]
        if one.inconclusive.startswith(STOPPED):
            raise CannotStart(one.inconclusive)
        examples, seconds = examples + one.examples, seconds + one.seconds
        reach = _added(reach, {**one.reach, **one.tags})
        undecided = undecided or one.inconclusive or one.not_run
        if failures:
            kept, files = _with_files(failures[0])
            broken = (_broken_property(workshop, failures[0], kept, seed),)
            break
    return Outcome(0.0, seconds, examples, reach, broken, "" if broken else undecided), files


def _with_files(failure: Failure) -> tuple[dict[str, object], dict[str, bytes]]:
    """Return a failure as plain values, and the files of its case, which are written elsewhere."""
    if failure.kept is None:
        return tell(failure, None), {}
    with run_folder() as folder:
        try:
            path = write_case(failure.kept, folder)
        except (SpecRejection, OSError) as error:  # NOTE: of a call outside the domain not every argument is written.
            return tell_without_case(failure, error), {}
        files = {one.name: one.read_bytes() for one in folder.iterdir()}
    return tell(failure, Path(path.name)), files


def _broken_property(workshop: Workshop, failure: Failure, plain: dict[str, object], seed: int) -> Broken:
    named = shlex.quote(workshop.terms.implementation)
    replay = f"specsim check {named} --seed {seed} --examples {workshop.terms.examples} --property {failure.property}"
    left_out = "".join(f" --without {name}" for name in failure.without)
    words = failure.message or failure.error
    weight = None if failure.case is None else weigh(failure.case)
    return Broken(words, seed, plain=plain, weight=weight, replay=replay + left_out)


def _try_machine(workshop: Workshop, unit: Unit, known: frozenset[str]) -> Tried:
    """Run a machine of a soak."""
    terms, (seed,) = workshop.terms, unit.seeds
    soak = Soak(terms.implementation, seed, terms.limits)
    soaked, event = Soaked(seed), answer_of(workshop.supervisor, soak.job(unit.number))
    soaked.take(unit.number, event)
    busy = event.answer["duration"] if isinstance(event, Done) else 0.0
    is_new = any(_is_new(failure, known) for failure in soaked.failures.values())
    histories = soak.shortest(workshop.supervisor, soaked, terms.replays) if is_new else {}
    replay = f"specsim soak {shlex.quote(terms.implementation)} --seed {seed} --machine {unit.number}"
    found = [
        (failure, histories.get(number, failure) if is_new else _without_history(failure))
        for number, failure in soaked.failures.items()
    ]
    # NOTE: a machine that failed is reported once, by its error; what else is wrong is a line of its own.
    others = [BrokenUnit(line) for line in complaints(soaked) if not line.startswith("machine ")]
    broken = tuple(_broken_run(unit, *two, replay) for two in (*found, *zip(others, others, strict=True)))
    tags = {tag.value: count for tag, count in soaked.reach.items()}
    reach = {**tags, **soaked.reused, **soaked.algorithms}
    undecided = "; ".join(soaked.refused)
    return Outcome(0.0, busy, soaked.num_machines, reach, broken, undecided), {}


def _try_cell(workshop: Workshop, unit: Unit, known: frozenset[str], is_law: bool) -> Tried:
    """Run a history of a cell of the matrix, or go through its law."""
    terms, (seed,), cell = workshop.terms, unit.seeds, cell_named(unit.name)
    if cell is None:
        return Outcome(undecided=f"{unit.name} is no cell here"), {}
    run = MatrixRun(workshop.supervisor, terms.implementation, (unit.mode,), seed, terms.limits)
    most_seeded = terms.most_seeded(terms.implementation, workshop.prepared.device)
    laws = Laws((cell,), most_seeded) if is_law else NO_LAWS
    result = run.run((cell,), () if is_law else (unit.number,), laws)
    if result.stopped:
        raise CannotStart(result.stopped)
    (one,) = result.cells
    found = [
        (failure, run.shortest(one, number, terms.replays) if _is_new(failure, known) else _without_history(failure))
        for number, failure in one.failures.items()
    ]
    alone = [law.error for law in result.laws if law.error is not None]
    alone += complaints_of(one) if not one.failures else []
    found += [(BrokenUnit(line), BrokenUnit(line)) for line in alone]
    which = "--law" if is_law else f"--history {unit.number}"
    replay = f"specsim matrix {shlex.quote(terms.implementation)} --seed {seed} --cell {unit.name} {which}"
    broken = tuple(_broken_run(unit, *two, replay) for two in found)
    refused = [law.refused for law in result.laws if law.refused]
    undecided = "; ".join([*refused, *shortfalls_of(one)])
    reach = {name: number for name, number in one.counts.items() if number}
    return Outcome(0.0, result.busy_seconds, 1, reach, broken, "" if broken else undecided), {}


def _try_mutant(workshop: Workshop, unit: Unit, known: frozenset[str]) -> Tried:
    """Show a mutant to the properties; one that lives with a seed is a failure of the suite."""
    (seed,) = unit.seeds
    arguments = (workshop.terms.implementation, unit.name, unit.seeds, HuntLimits(workshop.terms.examples))
    read = partial(checked, kind=PlainHunt)
    event = answer_of(
        workshop.supervisor, Job((unit.name, seed), RUN_MUTANT, arguments, workshop.terms.limits, read=read)
    )
    replay = f"specsim mutants {unit.name} --seed {seed} --examples {workshop.terms.examples}"
    if not isinstance(event, Done):
        return Outcome(examples=1, failures=(_broken_run(unit, broken_by(event), broken_by(event), replay),)), {}
    failure = broken_from(event.answer)
    broken = () if failure is None else (_broken_run(unit, failure, failure, replay),)
    return Outcome(0.0, event.answer["duration"], 1, event.answer["reach"], broken), {}


def _broken_run(unit: Unit, raw: BrokenUnit, shortest: BrokenUnit, replay: str) -> Broken:
    """Return the failure of a whole run as it was found, with the shortest history that was found of it."""
    weight = len(shortest.lines) or None
    (seed,) = unit.seeds
    return Broken(shortest.error, seed, unit.number, None, weight, shortest.lines, replay, sort_of(raw.error))


def _is_new(failure: BrokenUnit, known: frozenset[str]) -> bool:
    return sort_of(failure.error) not in known


def _without_history(failure: BrokenUnit) -> BrokenUnit:
    """Return a failure without the history that it was found in, which is as long as it was drawn."""
    return replace(failure, lines=())


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other) if one.get(name) or other.get(name)}


TRIED_BY: Mapping[Kind, Callable[[Workshop, Unit, frozenset[str]], Tried]] = {
    Kind.PROPERTY: _try_property,
    Kind.MACHINE: _try_machine,
    Kind.CELL: partial(_try_cell, is_law=False),
    Kind.LAW: partial(_try_cell, is_law=True),
    Kind.MUTANT: _try_mutant,
}
