"""What ``specsim check`` says of a run: a table, the failures and their cases, one JSON document, or tests of CI."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from specsim.cli.checking import unpromised
from specsim.cli.checking.known import Judged
from specsim.cli.ci_files import Outcome, Tried
from specsim.cli.documents import FAILED, FailureRecord, PropertyRecord, shared_document
from specsim.cli.output import last_line, plain_table, print_table, reasons_of, remark, say
from specsim.conformance.cases import Case, write_case
from specsim.conformance.catalogue import CATALOGUE, Kind, names_of
from specsim.conformance.plain_text import named

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.causes import Cause
    from specsim.properties.suite.conformance.report import Failure, PropertyReport, Report
    from specsim.properties.suite.conformance.selection import Promises

VERSIONS_IN_A_CASE = ("numpy", "torch", "triton", "hypothesis")


@dataclass
class CaseFolder:
    """Where cases go: ``folder``, and where that fails a temporary one; ``paths`` has them by property."""

    folder: Path
    paths: dict[str, Path] = field(default_factory=dict)

    def keep(self, failure: "Failure") -> Path | None:
        """Write the case of a failure, if it is a call of one operation, and return where."""
        if failure.kept is None:
            return None
        try:
            path = write_case(failure.kept, self.folder)
        except OSError as error:
            elsewhere = self._write_elsewhere(failure.kept, f"--cases-dir {self.folder}: {error.strerror}")
            if elsewhere is None:
                return None
            path, self.folder = elsewhere, elsewhere.parent
        self.paths[failure.property] = path
        return path

    def _write_elsewhere(self, case: Case, why: str) -> Path | None:
        try:
            path = write_case(case, Path(tempfile.mkdtemp(prefix="specsim-cases-")))
        except OSError as error:
            remark(f"{why}; {tempfile.gettempdir()}: {error.strerror}; the case of {case.property_name} is not written")
            return None
        remark(f"{why}; cases are in {path.parent}")
        return path


def summarise(report: "Report", verdict: str, cases: CaseFolder) -> str:
    """Return the verdict and what failed, in one line."""
    failed = [
        f"failed {failure.property}"
        + (f" ({cases.paths[failure.property]})" if failure.property in cases.paths else "")
        for failure in report.failures
    ]
    return "; ".join([conclude(report, verdict), *failed, *unpromised.failed(report)])


def conclude(report: "Report", verdict: str) -> str:
    """Return the last line of a check."""
    return last_line(verdict, f"{report.examples:,} examples, seed {report.seed}", report.inconclusive_because)


def in_one_line(failure: "Failure", path: Path | None, is_expected: bool) -> str:
    """Return what is said of a failure when it is found."""
    words = (failure.message.splitlines() or [""])[0]
    fate = f"known failure, {failure.fate.lower()}:" if is_expected else failure.fate
    return f"{fate} {failure.property}: {words}" + (f" ({path})" if path is not None else "")


def causes_of(report: "Report") -> tuple["Cause", ...]:
    """Return the failures of a report by cause."""
    from specsim.properties.suite.conformance import causes

    return causes.causes_of(report.failures)


def lines_of(cause: "Cause", report: "Report", cases: CaseFolder, options: str) -> list[str]:
    """Return what is said of a cause: its first failure in full, and the others in one line.

    Parameters
    ----------
    options : str
        Those that decide what examples a property gets.
    """
    from specsim.properties.suite.conformance.explained import explain

    failure = cause.first
    lines = [*explain(failure, cause.loss), f"  {_line_that_replays(failure, report, cases, options)}"]
    return [*lines, *_others(cause.others)]


def _others(others: Sequence["Failure"]) -> list[str]:
    if not others:
        return []
    names = named([failure.property for failure in others])
    count = "1 property fails" if len(others) == 1 else f"{len(others)} properties fail"
    return [f"  most likely for the same reason {count} too: {names}"]


def _line_that_replays(failure: "Failure", report: "Report", cases: CaseFolder, options: str) -> str:
    path = cases.paths.get(failure.property)
    if path is not None:
        from specsim.properties.suite.conformance.explained import replay_line

        return replay_line(path, report.implementation)
    left_out = "".join(f" --without {name}" for name in failure.without)
    return (
        f"specsim check {report.implementation} --seed {report.seed} {options}{left_out} --property {failure.property}"
    )


def document_of(
    report: "Report", verdict: str, cases: CaseFolder, options: str, complaints: Sequence[str]
) -> dict[str, object]:
    """Return the JSON document; ``complaints`` are about the entries of ``--known``."""
    failures = [_record_of(failure, report, cases, options) for failure in report.failures]
    strays = [FailureRecord(name.partition(".")[2], name, FAILED, words) for name, words in report.strays.items()]
    of_operations = _counts_by_operation(report)
    others = [*strays, *(FailureRecord("", "known", FAILED, words) for words in complaints)]
    properties = {
        name: PropertyRecord(one.examples, one.failed, one.seconds, one.first_failed, one.drafts)
        for name, one in report.properties.items()
    }
    shared = shared_document(verdict, [*failures, *others], properties)
    return {
        **shared,
        "inconclusive_because": reasons_of(verdict, report.inconclusive_because),
        "implementation": report.implementation,
        "seed": report.seed,
        "examples": report.examples,
        "margin_cases": report.margin_cases,
        "ran": report.brings.ran(report.ran),
        "did_not_run": report.brings.did_not_run(report.ran),
        "operations": {
            name: {
                "examples": entry.examples,
                "failures": entry.failures,
                "missing": entry.missing,
                **of_operations[name],
            }
            for name, entry in report.operations.items()
        },
        "properties": {
            name: {
                **shared["properties"][name],
                "missing": entry.missing,
                "margin_cases": entry.margin_cases,
                "inconclusive": entry.inconclusive,
                "reach": entry.reach,
                "tags": entry.tags,
                "cut": entry.cut,
                "not_run": entry.not_run,
            }
            for name, entry in report.properties.items()
        },
        "failures": shared["failure_records"][: len(failures)],
        "groups": [
            {
                "operation": cause.operation,
                "first": cause.first.property,
                "properties": [failure.property for failure in (cause.first, *cause.others)],
                "loss": cause.loss,
            }
            for cause in causes_of(report)
        ],
        "statements": _laws_of(failure.property for failure in report.failures),
    }


def _counts_by_operation(report: "Report") -> dict[str, dict[str, object]]:
    """Return the margin cases of the properties that name an operation, and how many examples each limit left out."""
    from specsim.properties.suite.catalogue import properties_by_name

    operations = {name: one.operations for name, one in properties_by_name().items()}
    margins, left_out = Counter[str](), {name: Counter[str]() for name in report.operations}
    for name, one in report.properties.items():
        for operation in operations.get(name, ()):
            margins[operation] += one.margin_cases
            if operation in left_out:
                left_out[operation].update(one.left_out)
    return {name: {"margin_cases": margins[name], "left_out": dict(left_out[name])} for name in report.operations}


def _laws_of(names: Iterable[str]) -> dict[str, dict[str, object]]:
    """Return what properties state in words, the operations that each calls, and where the documentation has it."""
    from specsim.properties.suite.catalogue import properties_by_name
    from specsim.properties.suite.pages import place_of
    from specsim.properties.suite.statements import KINDS, statement_of

    known = properties_by_name()
    return {
        one.name: {
            "number": one.catalogue,
            "kind": KINDS.get(one.catalogue, ""),
            "states": statement_of(one),
            "operations": list(one.operations),
            "place": place_of(one),
        }
        for one in (known[name] for name in names if name in known)
    }


def _record_of(failure: "Failure", report: "Report", cases: CaseFolder, options: str) -> FailureRecord:
    return FailureRecord(
        operation=failure.operation,
        property=failure.property,
        fate=failure.fate,
        message=failure.message,
        error=failure.error,
        difference=failure.difference,
        case=str(cases.paths[failure.property]) if failure.property in cases.paths else None,
        example=report.properties[failure.property].first_failed,
        replay=_line_that_replays(failure, report, cases, options),
    )


def print_report(report: "Report", cases: CaseFolder, options: str, *, lists_all: bool = False) -> None:
    """Print the table of the operations, every failure, and what was left out.

    Operations that are missing are counted in one line, unless all are listed.
    """
    from specsim.properties.property import FEWEST_FOR_WEIGHTY

    table = plain_table("operation", "group", "#examples", "#failures")
    for name, entry in report.operations.items():
        if lists_all or not entry.missing:
            counts = ("missing", "") if entry.missing else (f"{entry.examples:,}", str(entry.failures))
            table.add_row(name, _group_of(name), *counts)
    if table.rows:
        print_table(table)
    num_missing = sum(entry.missing for entry in report.operations.values())
    if num_missing and not lists_all:
        say(f"missing: {num_missing} of {len(report.operations)}; --all lists them")
    for cause in causes_of(report):
        say("\n" + "\n".join(lines_of(cause, report, cases, options)))
    for name, one in report.properties.items():
        if one.inconclusive:
            say(f"\nINCONCLUSIVE: {name}")
            say("\n".join(f"  {line}" for line in one.inconclusive.splitlines()))
    _print_left_out(report)
    unrun = sum(1 for entry in report.properties.values() if entry.missing)
    failed = sum(1 for entry in report.properties.values() if entry.failed)
    undecided = sum(1 for entry in report.properties.values() if entry.inconclusive and not entry.failed)
    unseen = [one for one in report.properties.values() if not (one.examples or one.missing or one.failed)]
    excluded = sum(1 for entry in unseen if entry.is_excluded)
    long = sum(1 for one in unseen if not (one.is_excluded or one.cut or one.not_run or one.inconclusive))
    held = len(report.properties) - unrun - failed - undecided - len(unseen)
    say(f"\n{report.implementation} defines {_defined(report)}")
    unheld = (
        (unrun, "need an operation that is missing"),
        (excluded, "need what is excluded"),
        (long, f"are long and run from --examples {FEWEST_FOR_WEIGHTY} on"),
        (len(unseen) - excluded - long, "got no example"),
    )
    left_out = "".join(f", {number} {what}" for number, what in unheld if number)
    say(f"{held} properties held, {failed} failed{left_out}")
    reach = [count for entry in report.properties.values() for count in entry.reach.values()]
    if reach:
        say(f"reach: {len(reach):,} classes, each at least {min(reach):,} times")
    if report.must_reach:
        _print_tags(report)
    if report.margin_cases:
        say(f"margin cases: {report.margin_cases:,} of {report.examples:,} examples, which rounding may decide")


def _print_tags(report: "Report") -> None:
    """Print how many examples of each property met each of its tags."""
    table = plain_table("property", "situation", "#examples")
    for name, one in report.properties.items():
        for tag, count in one.tags.items():
            table.add_row(name, tag, f"{count:,} of {one.examples:,}")
    if table.rows:
        print_table(table)


def _defined(report: "Report") -> str:
    """Count what is defined, of the kinds of which there is anything."""
    words = []
    for kind in (Kind.OPERATION, Kind.MODEL_OPERATION):
        listed = [report.operations[name] for name in names_of(kind) if name in report.operations]
        if listed or kind is Kind.OPERATION:
            words.append(f"{sum(not entry.missing for entry in listed)} of {len(listed)} {kind}s")
    samplers_there = len(report.operations.keys() & set(names_of(Kind.SAMPLER_WITHOUT_COINS)))
    words += [f"{samplers_there} samplers without coins"] if samplers_there else []
    others = ((Kind.HOST_FUNCTION, "host functions"), (Kind.PART, "parts of an engine"))
    counts = [(len(report.operations.keys() & set(names_of(kind))), what) for kind, what in others]
    return ", ".join([*words, *(f"{number} {what}" for number, what in counts if number)])


def _group_of(name: str) -> str:
    entry = CATALOGUE[name]
    return f"{entry.group} (host)" if entry.kind in (Kind.HOST_FUNCTION, Kind.PART) else entry.group


def _print_left_out(report: "Report") -> None:
    """Say which properties were cut, and which were not run and why."""
    why: dict[str, list[str]] = {}
    for name, one in report.properties.items():
        if one.cut and one.examples:
            say(f"cut: {name} after {one.examples:,} examples")
        elif (one.cut or one.not_run) and not one.left_out:
            why.setdefault(one.not_run or "cut before its first example was through", []).append(name)
    for because, names in why.items():
        say(f"not run: {len(names)} properties, {because}: {named(names)}")


def tests_of(
    report: "Report", cases: CaseFolder, options: str, backend: "Promises", judged: Judged
) -> tuple[Tried, ...]:
    """Return a test for each property, those that the module lacks an operation for included.

    The first failure of a cause is explained as on the terminal, the others name it. A failure that is known is
    skipped, and an entry of ``--known`` that holds no more fails.
    """
    from specsim.properties.suite.catalogue import properties_by_name

    operations = {name: one.operations for name, one in properties_by_name().items()}
    known = {failure.property: entry.link for failure, entry in judged.expected}
    texts: dict[str, str] = {}
    for cause in causes_of(report):
        texts[cause.first.property] = "\n".join(lines_of(cause, report, cases, options))
        texts |= {one.property: f"most likely as {cause.first.property}" for one in cause.others}
    messages = {failure.property: failure.message for failure in report.failures}
    tests = []
    for name, one in report.properties.items():
        group = f"{report.implementation}.{(operations.get(name) or ('whole_runs',))[0]}"
        if name in known:
            words = "known failure" + (f", {known[name]}" if known[name] else "")
            tests.append(Tried(group, name, Outcome.SKIPPED, words))
        elif name in messages:
            tests.append(Tried(group, name, Outcome.FAILED, messages[name], texts[name]))
        else:
            lacking = [operation for operation in operations.get(name, ()) if not backend.has(operation)]
            tests.append(Tried(group, name, *_outcome_of(one, lacking)))
    tests += [Tried("known failures", complaint, Outcome.FAILED, complaint) for complaint in judged.complaints]
    return (*tests, *unpromised.tests_of(report))


def _outcome_of(one: "PropertyReport", lacking: list[str]) -> tuple[Outcome, str]:
    """Return what became of a property that did not fail, and why it decided nothing."""
    if one.missing:
        return Outcome.SKIPPED, f"missing: {', '.join(lacking)}"
    if one.inconclusive:
        return Outcome.ERROR, one.inconclusive
    if one.examples:
        return Outcome.PASSED, ""
    if one.left_out:
        return Outcome.SKIPPED, f"excluded: {'; '.join(one.left_out)}"
    if one.cut:
        return Outcome.ERROR, one.not_run or "cut before its first example was through"
    return Outcome.SKIPPED, one.not_run or "no example"
