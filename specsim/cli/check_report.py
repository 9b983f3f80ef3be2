"""What ``specsim check`` says of a run: a table and the failures, or one JSON document."""

from typing import TYPE_CHECKING

from specsim.cli.explained import causes_of, lines_of
from specsim.cli.failures import CaseFolder
from specsim.cli.output import plain_table, print_table, reasons_of, say
from specsim.conformance.catalogue import CATALOGUE, Kind, names_of
from specsim.conformance.plain_text import named

if TYPE_CHECKING:
    from specsim.properties.conformance.report import Report


def document_of(report: "Report", verdict: str, cases: CaseFolder) -> dict[str, object]:
    """Return the JSON document."""
    return {
        "verdict": verdict,
        "inconclusive_because": reasons_of(verdict, report.inconclusive_because),
        "implementation": report.implementation,
        "seed": report.seed,
        "examples": report.examples,
        "margin_cases": report.margin_cases,
        "ran": report.brings.ran(report.ran),
        "did_not_run": report.brings.did_not_run(report.ran),
        "operations": {
            name: {"examples": entry.examples, "failures": entry.failures, "missing": entry.missing}
            for name, entry in report.operations.items()
        },
        "properties": {
            name: {
                "examples": entry.examples,
                "failed": entry.failed,
                "missing": entry.missing,
                "margin_cases": entry.margin_cases,
                "inconclusive": entry.inconclusive,
                "reach": entry.reach,
                "cut": entry.cut,
                "not_run": entry.not_run,
            }
            for name, entry in report.properties.items()
        },
        "failures": [
            {
                "operation": failure.operation,
                "property": failure.property,
                "fate": failure.fate,
                "message": failure.message,
                "error": failure.error,
                "difference": failure.difference,
                "case": str(cases.paths[failure.property]) if failure.property in cases.paths else None,
            }
            for failure in report.failures
        ],
        "groups": [
            {
                "operation": cause.operation,
                "first": cause.first.property,
                "properties": [failure.property for failure in (cause.first, *cause.others)],
            }
            for cause in causes_of(report)
        ],
    }


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
    if report.margin_cases:
        say(f"margin cases: {report.margin_cases:,} of {report.examples:,} examples, which rounding may decide")


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
