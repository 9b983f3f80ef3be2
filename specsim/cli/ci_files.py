"""``--junit``, ``--summary`` and ``--report``: the results of a run, for the pages of CI systems and for a browser."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

from specsim.cli.documents import circumstances
from specsim.cli.output import Exit, Failed, remark, require_writable, write_file
from specsim.conformance.plain_text import first_line, printable, shown
from specsim.installation import explain_missing, find_missing

PATH = click.Path(path_type=Path, dir_okay=False)
MOST_DETAILS = 20
"""Failures that a summary explains: pages of CI systems hold a megabyte."""


class Outcome(StrEnum):
    """What became of a test, in the order of a summary."""

    FAILED = "failed"
    ERROR = "inconclusive"
    SKIPPED = "skipped"
    PASSED = "passed"


ELEMENTS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}
"""The element of JUnit's XML that a test gets, by its outcome."""


@dataclass(frozen=True)
class Tried:
    """One test of a run: a property, a case, a cell or a machine.

    Parameters
    ----------
    group, name : str
        What is tried, and by what.
    outcome : Outcome
        What became of it.
    message : str
        Why, in one line; empty if it passed.
    text : str
        The explanation, of several lines.
    """

    group: str
    name: str
    outcome: Outcome
    message: str = ""
    text: str = ""


@dataclass(frozen=True)
class Ended:
    """A run that has ended: the command, its verdict, its last line, and its tests."""

    command: str
    verdict: str
    line: str
    tests: tuple[Tried, ...]
    because: Sequence[str] = ()

    def with_verdict(self) -> "Ended":
        """Return the run with one test more where its verdict is neither of its tests: inconclusive, interrupted."""
        if self.verdict in ("conforms", "fails"):
            return self
        reported = Tried(self.command, "verdict", Outcome.ERROR, self.line, "\n".join(self.because))
        return Ended(self.command, self.verdict, self.line, (*self.tests, reported), self.because)


@dataclass(frozen=True)
class CiFiles:
    """The files that are asked for; None for one that is not."""

    junit: Path | None = None
    summary: Path | None = None

    @property
    def are_wanted(self) -> bool:
        """Whether there is one."""
        return self.junit is not None or self.summary is not None

    def check(self) -> None:
        """Check that the files can be written before anything is run.

        Raises
        ------
        Failed
            USAGE.
        """
        for option, path in (("--junit", self.junit), ("--summary", self.summary)):
            if path is not None:
                require_writable(option, path)

    def write(self, ended: Ended) -> None:
        """Write the results of a run; a file that cannot be written any more is named on stderr."""
        for option, path, text_of in (("--junit", self.junit, junit_of), ("--summary", self.summary, summary_of)):
            if path is not None:
                write_file(option, path, text_of(ended.with_verdict()))


def with_ci_files(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--junit`` and ``--summary`` to a command, which gets them as ``ci``; a run that cannot start is written."""

    @functools.wraps(command)
    def called(*, junit: Path | None, summary: Path | None, **others: Any) -> None:
        files = CiFiles(junit, summary)
        files.check()
        try:
            command(ci=files, **others)
        except Failed as failed:
            files.write(Ended(f"specsim {click.get_current_context().info_name}", "not run", str(failed), ()))
            raise

    writes_junit = "Write the outcome of every test as JUnit XML."
    writes_summary = "Write verdict and failures in Markdown, as for a page of a CI system."
    called = click.option("--summary", type=PATH, metavar="FILE.md", help=writes_summary)(called)
    return click.option("--junit", type=PATH, metavar="FILE", help=writes_junit)(called)


class ReportFile:
    """The page that ``--report`` asks for, if it does."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._is_written = False

    @property
    def is_wanted(self) -> bool:
        """Whether there is one."""
        return self._path is not None

    def check(self) -> None:
        """Check that the page can be made and written before anything is run.

        Raises
        ------
        Failed
            UNAVAILABLE: what makes it is not installed; USAGE: it cannot be written.
        """
        if self._path is None:
            return
        if find_missing("report"):
            raise Failed(explain_missing("report", "--report"), Exit.UNAVAILABLE)
        require_writable("--report", self._path)

    def write(self, document: Mapping[str, Any]) -> None:
        """Write the page of a document; one that cannot be written any more is named on stderr."""
        if self._path is None:
            return
        from specsim.reports import docs_beside, render

        self._is_written = True
        try:
            page = render(str(document["command"]), document, docs_beside(self._path.parent))
        except Exception as error:  # NOTE: the verdict of hours is worth more than its page, whatever that lacks.
            remark(f"--report {self._path}: {type(error).__name__}: {first_line(error)}; it is not written")
        else:
            write_file("--report", self._path, page)

    def write_not_run(self, verdict: str, because: str) -> None:
        """Write why a run came to nothing, unless its page is there."""
        if self.is_wanted and not self._is_written:
            self.write({"verdict": verdict, **circumstances(f"{verdict}: {because}", None, None)})


def with_report(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--report`` to a command, which gets it as ``page``; a run that cannot start is written."""

    @functools.wraps(command)
    def called(*, report: Path | None, **others: Any) -> None:
        page = ReportFile(report)
        page.check()
        try:
            command(page=page, **others)
        except Failed as failed:
            page.write_not_run("not run", str(failed))
            raise
        except KeyboardInterrupt:
            page.write_not_run("interrupted", "before anything was tried")
            raise

    writes = "Write everything that was found as one page for a browser."
    return click.option("--report", type=PATH, metavar="FILE.html", help=writes)(called)


def junit_of(ended: Ended) -> str:
    """Return JUnit's XML of a run."""
    counts = Counter(test.outcome for test in ended.tests)
    totals = {
        "tests": len(ended.tests),
        "failures": counts[Outcome.FAILED],
        "errors": counts[Outcome.ERROR],
        "skipped": counts[Outcome.SKIPPED],
    }
    root = ElementTree.Element("testsuites", {name: str(count) for name, count in totals.items()})
    suite = ElementTree.SubElement(root, "testsuite", {"name": printable(ended.command), **root.attrib})
    for test in ended.tests:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": printable(test.group), "name": printable(test.name)}
        )
        if test.outcome is not Outcome.PASSED:
            said = ElementTree.SubElement(case, ELEMENTS[test.outcome], {"message": shown(test.message)})
            said.text = printable(test.text) or None
    ElementTree.SubElement(suite, "system-out").text = printable(ended.line)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def summary_of(ended: Ended) -> str:
    """Return a run in Markdown: the verdict, the counts, what failed, and what decided too little."""
    counts = Counter(test.outcome for test in ended.tests)
    lines = [f"## {_quoted(ended.command)}", "", f"**{ended.verdict}**{_plain(ended.line.removeprefix(ended.verdict))}"]
    lines += ["", "| outcome | tests |", "|---|---:|"]
    lines += [f"| {outcome} | {counts[outcome]:,} |" for outcome in Outcome if counts[outcome]]
    for title, outcome in (("Failures", Outcome.FAILED), ("Inconclusive", Outcome.ERROR)):
        reported = [test for test in ended.tests if test.outcome is outcome]
        lines += ["", f"### {title}"] if reported else []
        for test in reported[:MOST_DETAILS]:
            lines += ["", f"{_quoted(test.name)}: {_plain(shown(test.message))}"]
            lines += ["", *_fenced(printable(test.text))] if test.text else []
        lines += ["", f"and {len(reported) - MOST_DETAILS} more"] if len(reported) > MOST_DETAILS else []
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return f"`{shown(text).replace('`', chr(39))}`"


def _plain(text: str) -> str:
    """Return text without what Markdown takes for markup."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def _fenced(text: str) -> Sequence[str]:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return (f"{fence}text", text, fence)
