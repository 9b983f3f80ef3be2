"""``--known`` and ``--write-known`` of a check: failures that are expected, and those that are not any more."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import specsim
from specsim.cli.output import Exit, Failed, remark
from specsim.conformance.known import (
    BadKnownFailures,
    KnownFailure,
    Subject,
    cause_of,
    entry_of,
    read_known,
    write_known,
)

if TYPE_CHECKING:
    from specsim.properties.suite.conformance.report import Failure, Report

PATH = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class Judged:
    """A report without the failures that were expected.

    Parameters
    ----------
    report : Report
        Its failures are those that no one expected, and its verdict is theirs.
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
    reading = (
        "Failures that are expected (TOML), or the name of an adapter of specsim.engines for its own; one that does not"
        " come, or whose day has passed, fails the run."
    )
    writing = "Write the failures that were found as known ones, and keep the entries of --known that still hold."
    adding = (
        "Let --write-known write an entry for each cause instead of each property, and keep those of --known that"
        " did not come as seldom; for runs of several seeds, one after another."
    )
    command = click.option("--by-cause", is_flag=True, help=adding)(command)
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
    from specsim.properties.suite.catalogue import all_properties

    try:
        return read_known(_file_of(path), (one.name for one in all_properties()), subject.version)
    except BadKnownFailures as error:
        raise Failed(f"{error}", Exit.USAGE) from error


def _file_of(path: Path) -> Path:
    """Return the file beside the adapter that a bare name stands for, or the file of a path."""
    beside_adapter = Path(specsim.__file__).parent / "engines" / path / "known.toml"
    is_name = len(path.parts) == 1 and not path.suffix
    return beside_adapter if is_name and not path.exists() and beside_adapter.is_file() else path


def expects(entries: tuple[KnownFailure, ...], failure: "Failure", subject: Subject) -> bool:
    """Return whether a failure is known, and its day has not passed."""
    today = datetime.now(UTC).date()
    met = [entry for entry in entries if entry.concerns(subject) and _is(entry, failure)]
    return any(entry.expires is None or entry.expires >= today for entry in met)


def judge(report: "Report", entries: tuple[KnownFailure, ...], subject: Subject) -> Judged:
    """Take the expected failures out of a report, and see which entries do not hold any more."""
    if not entries:
        return Judged(report)
    from specsim.properties.suite.conformance.report import judged

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


def write(
    path: Path | None, entries: tuple[KnownFailure, ...], judged: Judged, subject: Subject, *, by_cause: bool = False
) -> None:
    """Write what failed as known failures; entries of what was not tried, or still fails, are kept as they are.

    By cause, no entry is left out: one that did not come is seldom, as is one that comes after others were recorded.
    """
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
    if by_cause:
        kept += [replace(entry, seldom=True) for entry in entries if entry not in kept]
        causes = {(failure.operation, cause_of(failure.message)) for failure in judged.report.failures}
        fresh = [
            replace(entry_of(operation, "", subject, today), pattern=cause, seldom=bool(entries))
            for operation, cause in sorted(causes)
        ]
    try:
        write_known(path, [*kept, *fresh])
    except OSError as error:
        raise Failed(f"--write-known {path}: {error.strerror}", Exit.USAGE) from error
    count = len(kept) + len(fresh)
    remark(f"{path} holds {count} known failure{'s' * (count != 1)}")


def document(judged: Judged) -> dict[str, Any]:
    """Return what was expected for JSON."""
    expected = [
        {
            "operation": failure.operation,
            "property": failure.property,
            "message": failure.message,
            "link": entry.link,
            "entry": str(entry),
            "expires": None if entry.expires is None else entry.expires.isoformat(),
        }
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
        return any(one.examples > 0 for name, one in report.properties.items() if entry.names(name))
    there = report.operations.get(entry.operation)
    return report.examples > 0 if not entry.operation else there is not None and there.examples > 0


def _was_tried_in_full(report: "Report", entry: KnownFailure) -> bool:
    """Return whether a failure that did not come had every example to come in: nothing that may show it was cut."""
    from specsim.properties.suite.catalogue import all_properties

    if report.verdict == "interrupted" or not _was_tried(report, entry):
        return False
    may_show = {one.name for one in all_properties() if not entry.operation or entry.operation in one.operations}
    if entry.property:
        may_show = {name for name in report.properties if entry.names(name)}
    return not any(one.cut for name, one in report.properties.items() if name in may_show)
