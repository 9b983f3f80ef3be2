"""``specsim replay``: run saved cases again, in processes that may die.

With ``--observed`` no implementation is run: what was recorded is compared with the reference.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import msgspec

from specsim.cli.ci_files import CiFiles, Ended, Outcome, Tried, with_ci_files
from specsim.cli.device import OURS, load_implementation, need_suite
from specsim.cli.isolation import replay_workers, with_command, with_limits
from specsim.cli.output import (
    EXIT_CODES,
    EXIT_OF_VERDICT,
    Exit,
    Failed,
    finish,
    last_line,
    notice,
    plain_table,
    print_json,
    print_table,
    progress,
    reasons_of,
    say,
    verdict_of,
)
from specsim.conformance.backend import Backend, load
from specsim.conformance.cases import Case, Replay, read_case, replay_case
from specsim.conformance.isolation.jobs import Fate, Job, Limits, Lost, Skipped
from specsim.conformance.isolation.supervisor import Supervisor
from specsim.conformance.limits import Limits as DeclaredLimits
from specsim.conformance.outcomes import observe
from specsim.conformance.outside import OutsideLimits
from specsim.conformance.plain_files import bad_case_file
from specsim.conformance.plain_text import first_line, shown, shown_path
from specsim.conformance.stored import OBSERVED

if TYPE_CHECKING:
    from specsim.properties.property import Property

REFERENCE = "specsim.reference"


@dataclass(frozen=True)
class Against:
    """What a user says of whom cases are replayed against: a module, or that each case says it, or nothing."""

    named: str | None = None
    is_from_case: bool = False

    def names_for(self, case: Case) -> tuple[str, ...]:
        """Return the modules that a case may be replayed against, the first that can run it goes before."""
        if self.is_from_case:
            return (case.provenance.implementation,)
        return (OURS, REFERENCE) if self.named is None else (self.named,)

    def judge(self, outcome: Replay, case: Case, name: str) -> Replay:
        """Return what became of a case: nothing is fixed where somebody else is tried whom no one asked for."""
        is_asked_for = self.named is not None or case.provenance.implementation == name
        return Replay.HOLDS_HERE if outcome is Replay.FIXED and not is_asked_for else outcome


def with_implementation(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as ``against``."""

    @functools.wraps(command)
    def called(*, implementation: str | None, is_from_case: bool, **others: object) -> None:
        named = implementation
        if named is not None and is_from_case:
            raise Failed(f"--impl is {named}, and --implementation-from-case asks for another", Exit.USAGE)
        command(against=Against(named, is_from_case), **others)

    trusting = "Import the module, or start the command, that each case names; only for cases that you trust."
    called = click.option("--implementation-from-case", "is_from_case", is_flag=True, help=trusting)(called)
    module = f"Replay against this module.  [default: {OURS}, or {REFERENCE} where that cannot run]"
    return click.option("--impl", "implementation", metavar="MODULE", help=module)(with_command(called))


REPLAY, CAN_RUN = "specsim.cli.replay:replay_in_worker", "specsim.cli.replay:can_run"
OF_FATE = {
    Fate.CRASHED: Replay.CRASHED,
    Fate.RAISED: Replay.CRASHED,
    Fate.TIMED_OUT: Replay.TIMED_OUT,
    Fate.CUT: Replay.TIMED_OUT,
}
OF_A_TEST = {Replay.UNDECIDED.name: Outcome.ERROR}
UNAVAILABLE = "UNAVAILABLE"
MISSING = "MISSING"


@click.command(epilog=EXIT_CODES)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False), metavar="PATH...")
@with_implementation
@click.option("--observed", is_flag=True, help="Compare what was recorded with the reference; run no implementation.")
@with_limits
@with_ci_files
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def replay(
    paths: tuple[Path, ...], against: Against, observed: bool, limits: Limits, as_json: bool, ci: CiFiles
) -> None:
    """Run saved cases again, or judge recorded calls.

    Outcomes are: + FIXED, x FAILED as recorded, ~ CHANGED, ! CRASHED, ! TIMED OUT, ? UNDECIDED.

    A case is first compared with the arrays that it expects, then handed to the property that found it. The module that
    a case names is shown and not imported; + HOLDS HERE means that such a case holds in another module by default.
    A case is undecided if its law has too few samples, or if the module declares that it does not take such a case.
    """
    if observed and ci.are_wanted:
        raise Failed("--junit and --summary are for cases that are run, and --observed runs none", Exit.USAGE)
    if observed:
        replay_observed(paths, "the one that a case names" if against.is_from_case else against.named, as_json)
    notice("importing the suite …")
    need_suite()
    cases = [(path, _read(path)) for path in paths]
    lines, is_missing = [], False
    with replay_workers() as supervisor:
        for path, case in cases:
            notice(f"replaying {shown_path(path)} …")
            plain, words, name = _outcome_of(supervisor, path, case, against, limits)
            outcome, is_missing = (Replay.CRASHED, True) if plain == MISSING else (Replay[plain], is_missing)
            outcome, origin = against.judge(outcome, case, name), case.provenance.implementation
            lines.append(
                {
                    "path": str(path),
                    "outcome": outcome.name,
                    "difference": words,
                    "implementation": name,
                    "recorded_of": origin,
                }
            )
            if not as_json:
                of_another = f", recorded of {shown(origin)}" if origin != name else ""
                say(f"{outcome.value:9} {shown_path(path)}  {case.property_name}  on {name}{of_another}")
                if words:
                    say(f"    {shown(words)}")
    decided = {Replay.FIXED.name, Replay.HOLDS_HERE.name}
    because = [f"{line['path']}: {line['difference']}" for line in lines if line["outcome"] == Replay.UNDECIDED.name]
    wrong = [line["path"] for line in lines if line["outcome"] not in {*decided, Replay.UNDECIDED.name}]
    verdict = verdict_of(is_interrupted=False, wrong=wrong, because=because)
    if as_json:
        print_json({"cases": lines, "inconclusive_because": reasons_of(verdict, because)})
    elif verdict == "inconclusive":
        say(last_line(verdict, f"{len(lines):,} cases", because))
    tests = tuple(
        Tried(
            line["implementation"],
            line["path"],
            Outcome.PASSED if line["outcome"] in decided else OF_A_TEST.get(line["outcome"], Outcome.FAILED),
            f"{line['outcome']}: {line['difference']}",
        )
        for line in lines
    )
    ci.write(
        Ended("specsim replay", verdict, last_line(verdict, f"{len(lines):,} cases", because), tests, tuple(because))
    )
    summary = "; ".join(f"{line['outcome']} {line['path']}" for line in lines)
    finish(Exit.UNAVAILABLE if is_missing else EXIT_OF_VERDICT[verdict], summary)


def _read(path: Path) -> Case:
    """Read a case file, and check that what it says of a law fits the law.

    Raises
    ------
    SpecRejection
        BAD_CASE_FILE.
    """
    case = read_case(path)
    found = None if case.law is None else _property_of(case)
    if case.law is not None and found is not None:
        from specsim.properties.suite.conformance.law_cases import given_to
        from specsim.properties.suite.conformance.plain_cases import NotPlain

        try:
            given_to(found, case.law)
        except NotPlain as error:
            raise bad_case_file(path, f"law.given, {error}", f"what {found.name} takes", "it is handed over") from error
    return case


def replay_in_worker(path: str, name: str) -> tuple[str, str]:
    """Run a case here; return the name of what became of it, or UNAVAILABLE, or MISSING, and words."""
    case = read_case(Path(path))
    plain, words = can_run(name, case.operation)
    if plain:
        return plain, words
    outcome, words = _replay(load_implementation(name), case)
    return outcome.name, words


def can_run(name: str, operation: str) -> tuple[str, str]:
    """Return UNAVAILABLE or MISSING and why a module does not have an operation here, or two empty strings."""
    try:
        backend = load_implementation(name)
    except Failed as failed:
        return UNAVAILABLE, str(failed)
    return ("", "") if backend.has(operation) else (MISSING, f"{name} does not define {operation}")


def _outcome_of(
    supervisor: Supervisor, path: Path, case: Case, against: Against, limits: Limits
) -> tuple[str, str, str]:
    """Run a case in a worker; one that dies or hangs before anything is called cannot be started.

    Returns
    -------
    outcome, words, name : str
        The name of what became of it, or MISSING; what there is to say; the module.

    Raises
    ------
    Failed
        UNAVAILABLE.
    """
    *others, name = against.names_for(case)
    for other in others:
        if _run(supervisor, Job((f"{path} on {other}", 0), CAN_RUN, (other, case.operation), limits), other) == (
            "",
            "",
        ):
            name = other
            break
    outcome, words = _run(supervisor, Job((str(path), 0), REPLAY, (str(path), name), limits), name)
    if outcome == UNAVAILABLE:
        raise Failed(shown(words), Exit.UNAVAILABLE)
    return outcome, words, name


def _run(supervisor: Supervisor, job: Job, name: str) -> tuple[str, str]:
    """Run a job in a worker; return what it answers, or how it ended and why."""
    supervisor.submit(replace(job, read=_outcome_from))
    (event,) = supervisor.events()
    if isinstance(event, Lost):
        if event.call is None:
            return UNAVAILABLE, f"{name} does not import: {event.words}"
        return OF_FATE[event.fate].name, event.words
    outcome, words = (UNAVAILABLE, event.words) if isinstance(event, Skipped) else event.answer
    return str(outcome), str(words)


def _outcome_from(plain: Any) -> tuple[str, str]:
    outcome, words = msgspec.convert(plain, tuple[str, str])
    if outcome not in {"", UNAVAILABLE, MISSING, *Replay.__members__}:
        raise ValueError(f"no outcome of a replay: {outcome}")
    return outcome, words


def _replay(backend: Backend, case: Case) -> tuple[Replay, str]:
    from specsim.properties.operations.generated.margin_cases import difference_beyond_margins

    with backend.arrays.debugging():
        outcome, words = replay_case(backend, case, difference_beyond_margins)
        if outcome is not Replay.FIXED:
            return outcome, words
        return _replay_property(backend, case)


def _replay_property(backend: Backend, case: Case) -> tuple[Replay, str]:
    """Run the law that found the case: it may look at more than the outputs of one plain call."""
    from specsim.properties.laws.frequencies import Inconclusive
    from specsim.properties.suite.conformance.law_cases import given_by, given_to

    found = _property_of(case)
    if found is None or (case.law is None and (found.fills_missing or case.operation not in found.operations)):
        return Replay.FIXED, ""  # NOTE: it is a call inside a whole run, which the law would not take.
    given = given_by(found, case.arguments) if case.law is None else given_to(found, case.law)
    if given is None:
        return Replay.FIXED, f"the call alone: the case does not say what {found.name} takes"
    try:
        found.law(backend, given)
    except (Inconclusive, OutsideLimits) as undecided:
        return Replay.UNDECIDED, first_line(undecided)
    except AssertionError as broken:
        same = first_line(broken) in case.message
        return (Replay.FAILED if same else Replay.CHANGED), first_line(broken)
    except Exception as error:  # NOTE: an implementation under test may raise anything at all.
        return Replay.CRASHED, f"{type(error).__name__}: {first_line(error)}"
    return Replay.FIXED, ""


def _property_of(case: Case) -> "Property | None":
    from specsim.properties.suite.catalogue import properties_by_name

    return properties_by_name().get(case.property_name)


class Said(Enum):
    """What the reference says of a recorded call; the value is what is printed."""

    AGREES = "+ AGREES"
    CONTRADICTED = "x CONTRADICTED"
    UNDECIDED = "? UNDECIDED"


@dataclass(frozen=True)
class Judged:
    """A recorded call, what is said of it, where it differs first, and whether a margin or a tie excuses that."""

    path: Path
    operation: str
    said: Said
    difference: str
    is_excused: bool


def replay_observed(paths: Sequence[Path], implementation: str | None, as_json: bool) -> NoReturn:
    """Compare recorded outputs with those of the reference, and end the command.

    Raises
    ------
    Failed
        USAGE: an implementation is named; NOTHING_SELECTED: a folder has no case files.
    """
    if implementation is not None:
        raise Failed(f"--observed runs no implementation, and so not {implementation}", Exit.USAGE)
    need_suite()
    files = [file for path in paths for file in _files_of(path)]
    judged = []
    with progress("replay") as on_progress:
        for done, path in enumerate(files):
            if on_progress is not None:
                on_progress(path.name, done, len(files))
            judged.append(judge(path, read_case(path)))
    because = [f"{one.path.name}: {one.difference}" for one in judged if one.said is Said.UNDECIDED]
    wrong = [one.difference for one in judged if one.said is Said.CONTRADICTED]
    verdict = verdict_of(is_interrupted=False, wrong=wrong, because=because)
    line = last_line(verdict, _summary(judged), because) if verdict == "inconclusive" else _summary(judged)
    if as_json:
        reported = {"inconclusive_because": reasons_of(verdict, because)}
        print_json({"cases": [_document(one) for one in judged], **reported})
    else:
        _print(judged)
        say(line)
    finish(EXIT_OF_VERDICT[verdict], line)


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(path.glob("*.json"))
    if not found:
        raise Failed(f"{shown_path(path)} has no case files", Exit.NOTHING_SELECTED)
    yield from found


def judge(path: Path, case: Case) -> Judged:
    """Compare as ``agreement.*`` does; a call that both refuse is no difference, however an engine refuses it."""
    from specsim.properties.operations.generated.margin_cases import counting, difference_beyond_margins
    from specsim.properties.strategies.limits import drawing_within

    is_recorded = case.kind == OBSERVED
    expected = case.expected if is_recorded else observe(load("specsim.reference"), case.operation, case.arguments)
    if expected.error:
        return Judged(path, case.operation, Said.UNDECIDED, shown(f"the reference raises {expected.error}"), False)
    if expected.rejection and case.observed.error:
        return Judged(path, case.operation, Said.AGREES, "", False)
    limits = DeclaredLimits(ties_are_free=case.ties_are_free)
    with drawing_within(limits, (case.operation,)), counting() as count:
        difference = difference_beyond_margins(case.operation, case.arguments, expected, case.observed)
    said = Said.AGREES if difference is None else Said.CONTRADICTED
    return Judged(path, case.operation, said, shown(difference or ""), count.calls > 0)


def _print(judged: Sequence[Judged]) -> None:
    for one in judged:
        if one.said is not Said.AGREES:
            say(f"{one.said.value} {shown_path(one.path)}  {one.operation}\n    {one.difference}")
    table = plain_table("operation", "#recorded", "#contradicted", "#margin cases")
    for name in dict.fromkeys(one.operation for one in judged):
        of_it = [one for one in judged if one.operation == name]
        num_contradicted = sum(one.said is Said.CONTRADICTED for one in of_it)
        table.add_row(name, f"{len(of_it):,}", f"{num_contradicted:,}", f"{sum(one.is_excused for one in of_it):,}")
    print_table(table)


def _summary(judged: Sequence[Judged]) -> str:
    counted = Counter(one.said for one in judged)
    undecided = f", {counted[Said.UNDECIDED]:,} undecided" if counted[Said.UNDECIDED] else ""
    return f"{len(judged):,} recorded calls: {counted[Said.CONTRADICTED]:,} contradicted{undecided}"


def _document(one: Judged) -> dict[str, object]:
    return {
        "path": str(one.path),
        "operation": one.operation,
        "outcome": one.said.name,
        "difference": one.difference,
        "margin_case": one.is_excused,
    }
