"""Results on stdout, progress and remarks on stderr, and how a command ends."""

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from specsim.cli.results import Results
from specsim.conformance.plain_text import shown

WIDTH_OF_A_FILE = 140
OnProgress = Callable[[str, int, int], None]


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


LEAST_REASON = 40
"""Columns that a reason gets in the last line, however narrow the terminal is."""


def verdict_of(*, is_interrupted: bool, wrong: Sequence[str], because: Sequence[str]) -> str:
    """Return the verdict of a run by what is wrong, and by the reasons why it decided too little."""
    if is_interrupted:
        return "interrupted"
    return "fails" if wrong else "inconclusive" if because else "conforms"


def last_line(verdict: str, counted: str, because: Sequence[str]) -> str:
    """Return the last line of a command: the verdict, what was counted and, where it is inconclusive, why.

    The first reason is cut at the width of the terminal, and the number of the others is named.
    """
    line = f"{verdict}: {counted}"
    if verdict != "inconclusive" or not because:
        return line
    more = f" (1 of {len(because)} reasons)" if len(because) > 1 else ""
    room = max(console().width - len(f"{line}, because {more}"), LEAST_REASON)
    return f"{line}, because {textwrap.shorten(shown(because[0]), room, placeholder=' …')}{more}"


def reasons_of(verdict: str, because: Sequence[str]) -> list[str]:
    """Return the reasons for the JSON document: those of an inconclusive run, and no others."""
    return list(because) if verdict == "inconclusive" else []


class Failed(Exception):
    """Ends a command with one line on stderr and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code


def console() -> Console:
    """Return the console of results."""
    return _console(stderr=False)


def remark(line: str) -> None:
    """Print a line on stderr, if there is one."""
    with suppress(OSError):
        click.echo(line, err=True)


def announce(line: str) -> None:
    """Print the first line of a long command, and end it if the line cannot be written, as its results could not."""
    click.echo(line)
    if isinstance(sys.stdout, Results) and sys.stdout.is_missed:
        finish(Exit.USAGE, "nothing was run")


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2))


def finish(code: Exit, summary: str = "") -> NoReturn:
    """End the command with an exit code; the summary is told on stderr if the results could not be written."""
    if isinstance(sys.stdout, Results):
        sys.stdout.summary = summary
    raise click.exceptions.Exit(int(code))


def plain_table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in the style of all commands; columns that start with ``#`` hold numbers."""
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        is_number = column.startswith("#")
        table.add_column(column.removeprefix("#"), justify="right" if is_number else "left", overflow="fold")
    return table


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
    columns = (TextColumn("{task.description:<48.48}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def on_progress(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield on_progress


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDTH_OF_A_FILE)


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
