"""Lines and tables as wide as the terminal, with verdicts in colour; lines are broken between words.

Of rich only the widths of characters are used: it cuts or folds words where a table is too narrow, and has neither
hanging indents, nor lines that a shell takes as one command, nor rows that become paragraphs.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
from rich.cells import cell_len

WIDTH_OF_A_FILE = 140
"""Columns of a table in a file, where ``COLUMNS`` does not say."""

FEWEST_COLUMNS = 20

COLOURS = {
    "conforms": "green",
    "+ FIXED": "green",
    "+ AGREES": "green",
    "+ HOLDS HERE": "green",
    "inconclusive": "yellow",
    "INCONCLUSIVE": "yellow",
    "interrupted": "yellow",
    "nothing selected": "yellow",
    "not run": "yellow",
    "cut": "yellow",
    "? UNDECIDED": "yellow",
    "~ CHANGED": "yellow",
    "known failure": "yellow",
    "fails": "red",
    "FAILS": "red",
    "FAILED": "red",
    "FAILURE": "red",
    "KNOWN FAILURE": "red",
    "SURVIVES": "red",
    "survivor": "red",
    "powerless": "red",
    "! CRASHED": "red",
    "! TIMED OUT": "red",
    "x FAILED": "red",
    "x CONTRADICTED": "red",
}
"""What a word is coloured at the beginning of a line, and in a cell that holds nothing else."""

_VERDICT = re.compile(rf"(?:{'|'.join(sorted(map(re.escape, COLOURS), key=len, reverse=True))})(?![\w.])")
_LEAD = re.compile(r"[ │├└─]*")


def width(stream: Any = None) -> int:
    """Return the columns of a stream, by default stdout: ``COLUMNS``, else those of its terminal or of a file."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return max(int(given), FEWEST_COLUMNS)
    try:
        columns = os.get_terminal_size((stream or sys.stdout).fileno()).columns
    except (OSError, ValueError, AttributeError):
        return WIDTH_OF_A_FILE
    # NOTE: a terminal that does not know its size says 0.
    return max(columns or 80, FEWEST_COLUMNS)


def width_of_lines(stream: Any = None) -> int | None:
    """Return the columns of a terminal, None for a file: there a line is as long as it is, so that it can be found."""
    return width(stream) if (stream or sys.stdout).isatty() else None


def is_coloured() -> bool:
    """Return whether stdout shows colours: a terminal that is not dumb does, unless ``NO_COLOR`` is set."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def paint(text: str) -> str:
    """Return text with the verdict that it begins with in colour, where stdout shows colours."""
    lead = len(text) - len(text.lstrip())
    found = _VERDICT.match(text, lead) if is_coloured() else None
    if found is None:
        return text
    return f"{text[:lead]}{click.style(found[0], fg=COLOURS[found[0]], bold=True)}{text[found.end() :]}"


def bold(text: str) -> str:
    """Return text in bold, where stdout shows colours."""
    return click.style(text, bold=True) if text and is_coloured() else text


def wrapped(text: str, columns: int | None, hanging: int = 2) -> Iterator[str]:
    """Yield text in lines of at most so many columns; what is longer is broken between words, and goes on indented."""
    for line in text.split("\n"):
        if columns is None or cell_len(line) <= columns:
            yield line
            continue
        lead = _LEAD.match(line)
        indent = " " * min((0 if lead is None else lead.end()) + hanging, columns // 2)
        yield from _filled(line, columns, indent)


def command_lines(text: str, columns: int | None) -> Iterator[str]:
    r"""Yield a command in lines that a shell takes as one: all but the last end with a backslash."""
    if columns is None or cell_len(text) <= columns:
        yield text
        return
    indent = " " * (len(text) - len(text.lstrip()) + 4)
    *lines, last = _filled(text, columns - 2, indent)
    for line in lines:
        is_whole = line.count("'") % 2 == 0 and line.count('"') % 2 == 0
        if not is_whole:  # NOTE: a word in quotes has a space, and is not broken there.
            yield text
            return
    yield from (f"{line} \\" for line in lines)
    yield last


@dataclass
class Table:
    """Rows under columns; a column whose name starts with ``#`` holds numbers.

    A table that is too wide wraps its texts between words, and where not even words fit, each row becomes a paragraph.
    """

    columns: tuple[str, ...]
    title: str | None = None
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add_row(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)

    def lines(self, columns: int) -> Iterator[str]:
        """Yield the lines of the table, painted."""
        names = [name.removeprefix("#") for name in self.columns]
        if self.title:
            yield from self.title.split("\n")
        table = [tuple(names), *self.rows]
        natural = [max(_width_of(row[place], str.splitlines) for row in table) for place in range(len(names))]
        least = [max(_width_of(row[place], str.split) for row in table) for place in range(len(names))]
        room = columns - 2 * (len(names) - 1)
        if sum(least) > room:
            for row in self.rows:
                yield from _paragraph(names, row, columns)
            return
        while sum(natural) > room:
            widest = max((wide, place) for place, wide in enumerate(natural) if wide > least[place])[1]
            natural[widest] -= 1
        for number, row in enumerate(table):
            cells = [list(wrapped(cell, wide, 0)) for cell, wide in zip(row, natural, strict=True)]
            for line in range(max(map(len, cells))):
                texts = [of_cell[line] if line < len(of_cell) else "" for of_cell in cells]
                yield "  ".join(self._placed(texts, natural, is_head=number == 0)).rstrip()

    def _placed(self, texts: Sequence[str], widths: Sequence[int], *, is_head: bool) -> Iterator[str]:
        for name, text, wide in zip(self.columns, texts, widths, strict=True):
            gap = " " * (wide - cell_len(text))
            shown = bold(text) if is_head else paint(text) if text in COLOURS else text
            yield f"{gap}{shown}" if name.startswith("#") else f"{shown}{gap}"


def _paragraph(names: Sequence[str], row: Sequence[str], columns: int) -> Iterator[str]:
    """Yield a row as its first cell, and below it what the others are called and hold."""
    yield from wrapped(row[0], columns)
    cells = [(name, " ".join(cell.split())) for name, cell in zip(names[1:], row[1:], strict=True) if cell.strip()]
    reported = [f"{name} {cell}" if len(names) > 2 else cell for name, cell in cells]
    yield from wrapped(f"    {'; '.join(reported)}", columns, 0)


def _filled(line: str, columns: int, indent: str) -> Iterator[str]:
    filled = ""
    for word in re.findall(r" *[^ ]+", line):
        if filled.strip() and cell_len(filled + word) > columns:
            yield filled
            filled = indent + word.lstrip()
        else:
            filled += word
    yield filled


def _width_of(cell: str, parts: Callable[[str], Iterable[str]]) -> int:
    return max(map(cell_len, parts(cell)), default=0)
