"""Results on stdout, progress and remarks on stderr, and how a command ends."""

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

from specsim.cli import screen
from specsim.cli.results import Results
from specsim.cli.screen import Table
from specsim.conformance.plain_text import shown_path

OnProgress = Callable[[str, int, int], None]

_COMMAND = re.compile(r" *(replay: )?specsim [a-z]+ ")
"""How a line begins that a user copies into a shell."""

_shown: list[Progress] = []
"""The progress bar that is on the screen, if there is one; each has one task, the first."""

TASK = TaskID(0)


class Exit(IntEnum):
    """Exit codes of every command."""

    CONFORMS = 0
    FAILURE = 1
    USAGE = 2
    INCONCLUSIVE = 3
    UNAVAILABLE = 4
    NOTHING_SELECTED = 5
    INTERRUPTED = 130


EXIT_CODES = (
    "Exit codes: 0 conforms; 1 a failure; 2 usage, or results that cannot be written; 3 inconclusive; "
    "4 implementation cannot be started; "
    "5 nothing was selected; 130 interrupted."
)


EXIT_OF_VERDICT = {
    "conforms": Exit.CONFORMS,
    "fails": Exit.FAILURE,
    "inconclusive": Exit.INCONCLUSIVE,
    "nothing selected": Exit.NOTHING_SELECTED,
    "interrupted": Exit.INTERRUPTED,
}


MOST_REASONS, LONGEST_REASON = 3, 300
"""Reasons that the last line names, and characters of each."""


def verdict_of(*, is_interrupted: bool, wrong: Sequence[str], because: Sequence[str]) -> str:
    """Return the verdict of a run by what is wrong, and by the reasons why it decided too little."""
    if is_interrupted:
        return "interrupted"
    return "fails" if wrong else "inconclusive" if because else "conforms"


def last_line(verdict: str, counted: str, because: Sequence[str]) -> str:
    """Return the last line of a command: the verdict, what was counted and, where it is inconclusive, why.

    The first reasons are named, and how many more there are.
    """
    line = f"{verdict}: {counted}"
    if verdict != "inconclusive" or not because:
        return line
    # NOTE: imported here, so that a help text imports nothing that it need not.
    from specsim.conformance.plain_text import shown

    reasons = "; ".join(shown(reason, LONGEST_REASON) for reason in because[:MOST_REASONS])
    rest = len(because) - MOST_REASONS
    return f"{line}, because {reasons}" + (f"; and {rest} more reasons" if rest > 0 else "")


def reasons_of(verdict: str, because: Sequence[str]) -> list[str]:
    """Return the reasons for the JSON document: those of an inconclusive run, and no others."""
    return list(because) if verdict == "inconclusive" else []


class Failed(Exception):
    """Ends a command with one line on stderr and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


def say(text: str = "") -> None:
    """Print results on stdout, as wide as the terminal; a command stays one command, and verdicts are coloured."""
    columns = screen.width_of_lines()
    with aside():
        for line in text.split("\n"):
            lines = screen.command_lines(line, columns) if _COMMAND.match(line) else screen.wrapped(line, columns)
            for place, part in enumerate(lines):
                click.echo(part if place else screen.paint(part), color=screen.is_coloured())


def print_table(table: Table) -> None:
    """Print a table on stdout."""
    with aside():
        for line in table.lines(screen.width()):
            click.echo(line, color=screen.is_coloured())


def remark(line: str) -> None:
    """Print a line on stderr, if there is one."""
    with suppress(OSError), aside():
        for part in screen.wrapped(line, screen.width_of_lines(sys.stderr)):
            click.echo(part, err=True)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print each warning of Python's once, as a remark, and not as a piece of source."""
    reported = set[str]()

    def show(message: Warning | str, *place: object, **how: object) -> None:
        line = in_one_line(message)
        if line not in reported:
            reported.add(line)
            remark(line)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def in_one_line(message: Warning | str) -> str:
    """Return what a warning says in one line."""
    return f"warning: {' '.join(str(message).split())}"


@contextmanager
def aside() -> Iterator[None]:
    """Take the progress bar off the screen while something is printed."""
    bar = _shown[-1] if _shown else None
    if bar is None:
        yield
        return
    bar.stop()
    try:
        yield
    finally:
        bar.start()


def announce(line: str) -> None:
    """Print the first line of a long command, and end it if the line cannot be written, as its results could not."""
    say(line)
    if isinstance(sys.stdout, Results) and sys.stdout.is_missed:
        finish(Exit.USAGE, "nothing was run")


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2))


def require_writable(option: str, path: Path) -> None:
    """Check that a file can be written before anything is run.

    Raises
    ------
    Failed
        USAGE.
    """
    try:
        path.open("a").close()
    except OSError as error:
        raise Failed(f"{option} {shown_path(path)}: {error.strerror}", Exit.USAGE) from error


def write_file(option: str, path: Path, text: str) -> bool:
    """Write a file after a run, and return whether it is written; the reason is on stderr if it is not."""
    try:
        path.write_text(text, "utf-8", "backslashreplace")
    except OSError as error:
        remark(f"{option} {shown_path(path)}: {error.strerror}; it is not written")
        return False
    return True


def finish(code: Exit, summary: str = "") -> NoReturn:
    """End the command with an exit code; the summary is printed on stderr if the results could not be written."""
    if isinstance(sys.stdout, Results):
        sys.stdout.summary = summary
    raise click.exceptions.Exit(int(code))


def plain_table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in the style of all commands; columns that start with ``#`` hold numbers."""
    return Table(columns, title)


def notice(text: str) -> None:
    """Say on stderr what is being done, if that is a terminal, until a progress bar or the end of the command."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    if _shown:
        _shown[-1].update(TASK, description=escape(text))
    else:
        _shown.append(_bar(text, TextColumn("{task.description}"), TimeElapsedColumn()))


def end_notice() -> None:
    """Take what ``notice`` said off the screen."""
    while _shown:
        _shown.pop().stop()


@contextmanager
def progress(label: str) -> Iterator[OnProgress | None]:
    """Show a progress bar on stderr while the block runs, if stderr is a terminal.

    Yields
    ------
    on_progress : callable or None
        Takes the name of what is being done, how many are done, and how many there are.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    end_notice()
    description = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=48))
    bar = _bar(label, description, BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())

    def on_progress(name: str, done: int, total: int) -> None:
        bar.update(TASK, description=escape(name), completed=done, total=total)

    _shown.append(bar)
    try:
        yield on_progress
    finally:
        end_notice()


def _bar(label: str, *columns: ProgressColumn) -> Progress:
    """Return a bar that is on the screen."""
    # NOTE: what is printed meanwhile goes where it belongs, through ``aside``, and not through the bar's console.
    console = Console(stderr=True, highlight=False)
    bar = Progress(
        *columns,
        console=console,
        refresh_per_second=4,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(escape(label), total=None)
    bar.start()
    return bar


def need_working_directory() -> None:
    """Check that the working directory is there: torch ends the process where it is not, with words of its own.

    Raises
    ------
    Failed
        USAGE: it is gone.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise Failed(f"the working directory cannot be used: {error.strerror}", Exit.USAGE) from error
