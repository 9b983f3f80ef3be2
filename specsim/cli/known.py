"""``--known`` and ``--write-known`` of a check: failures that are expected, and those that are not any more."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specsim.cli.output import Exit, Failed, remark
from specsim.conformance.known import (
    BadKnownFailures,
    KnownFailure,
    Subject,
    entry_of,
    read_known,
    write_known,
)

if TYPE_CHECKING:
    from specsim.properties.conformance.report import Failure, Report

PATH = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class Judged:
    """A report without the failures that were expected.

    Parameters
    ----------
    report : Report
        Its failures are those that nobody expected, and its verdict is theirs.
    expected : tuple of (Failure, KnownFailure)
        The others, each with the entry that knows it.
    complaints : tuple of str
        What is wrong with the entries: failures that did not come, and days that have passed.
    """

    report: "Report"
    expected: tuple[tuple["Failure", KnownFailure], ...] = ()
    complaints: tuple[str, ...] = ()


def known_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--known`` and ``--write-known``."""
    reading = "Failures that are expected (TOML); one that does not come, or whose day has passed, fails the run."
    writing = "Write the failures that were found as known ones, and keep the entries of --known that still hold."
    command = click.option("--write-known", "known_to_write", type=PATH, metavar="FILE", help=writing)(command)
    return click.option("--known", "known_file", type=PATH, metavar="FILE", help=reading)(command)


def read(path: Path | None, subject: Subject) -> tuple[KnownFailure, ...]:
    """Read a file before anything is run.

    Raises
    ------
    Failed
        USAGE: it makes no sense.
    """
    if path is None:
        return ()
    from specsim.properties.catalogue import all_properties

    try:
        return read_known(path, (one.name for one in all_properties()), subject.version)
    except BadKnownFailures as error:
        raise Failed(f"{error}", Exit.USAGE) from error


def expects(entries: tuple[KnownFailure, ...], failure: "Failure", subject: Subject) -> bool:
    """Return whether a failure is known, and its day has not passed."""
    today = datetime.now(UTC).date()
    met = [entry for entry in entries if entry.concerns(subject) and _is(entry, failure)]
    return any(entry.expires is None or entry.expires >= today for entry in met)


def judge(report: "Report", entries: tuple[KnownFailure, ...], subject: Subject) -> Judged:
    """Take the expected failures out of a report, and see which entries do not hold any more."""
    if not entries:
        return Judged(report)
    from specsim.properties.conformance.report import judged

    today = datetime.now(UTC).date()
    entries = tuple(entry for entry in entries if entry.concerns(subject))
    found = [(failure, next((entry for entry in entries if _is(entry, failure)), None)) for failure in report.failures]
    expected = tuple((failure, entry) for failure, entry in found if entry is not None)
    unexpected = tuple(failure for failure, entry in found if entry is None)
    complaints = []
    for entry in entries:
        is_met = any(_is(entry, failure) for failure in report.failures)
        if entry.expires is not None and entry.expires < today:
            complaints.append(f"expired on {entry.expires}: {entry}")
        elif not (is_met or entry.seldom) and _was_tried_in_full(report, entry):
            complaints.append(f"did not fail, but should: {entry}")
    unknown = replace(report, failures=unexpected)
    return Judged(judged(unknown, is_failed=bool(unexpected or complaints)), expected, tuple(complaints))


def write(path: Path | None, entries: tuple[KnownFailure, ...], judged: Judged, subject: Subject) -> None:
    """Write what failed as known failures; entries of what was not tried, or still fails, are kept as they are."""
    if path is None:
        return
    today = datetime.now(UTC).date()
    met = [entry for _, entry in judged.expected]
    kept = [
        entry
        for entry in entries
        if entry in met or entry.seldom or not entry.concerns(subject) or not _was_tried(judged.report, entry)
    ]
    fresh = [entry_of(failure.operation, failure.property, subject, today) for failure in judged.report.failures]
    try:
        write_known(path, [*kept, *fresh])
    except OSError as error:
        raise Failed(f"--write-known {path}: {error.strerror}", Exit.USAGE) from error
    remark(f"{path} holds {len(kept) + len(fresh)} known failures")


def document(judged: Judged) -> dict[str, Any]:
    """Return what was expected for JSON."""
    expected = [
        {"operation": failure.operation, "property": failure.property, "message": failure.message, "link": entry.link}
        for failure, entry in judged.expected
    ]
    return {"expected": expected, "complaints": list(judged.complaints)}


def lines(judged: Judged) -> Iterator[str]:
    """Yield a line for each failure that was expected, and for each entry that does not hold any more."""
    for failure, entry in judged.expected:
        where = f" ({entry.link})" if entry.link else ""
        yield f"known failure of {failure.operation or 'a whole run'}: {failure.property}{where}"
    for complaint in judged.complaints:
        yield f"KNOWN FAILURE {complaint}"


def _is(entry: KnownFailure, failure: "Failure") -> bool:
    return entry.matches(failure.operation, failure.property, failure.message)


def _was_tried(report: "Report", entry: KnownFailure) -> bool:
    if entry.property:
        return entry.property in report.properties and report.properties[entry.property].examples > 0
    there = report.operations.get(entry.operation)
    return report.examples > 0 if not entry.operation else there is not None and there.examples > 0


def _was_tried_in_full(report: "Report", entry: KnownFailure) -> bool:
    """Return whether a failure that did not come had every example to come in: nothing that may show it was cut."""
    from specsim.properties.catalogue import all_properties

    if report.verdict == "interrupted" or not _was_tried(report, entry):
        return False
    if entry.property:
        return not report.properties[entry.property].cut
    may_show = {one.name for one in all_properties() if not entry.operation or entry.operation in one.operations}
    return not any(one.cut for name, one in report.properties.items() if name in may_show)
