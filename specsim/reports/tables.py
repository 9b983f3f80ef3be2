"""Tables of a page, and how their cells are written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Link:
    """A cell that leads to a place of the page."""

    text: str
    target: str


@dataclass(frozen=True)
class Status:
    """A cell that says what became of something: a word, beside which stands a sign."""

    word: str
    target: str = ""

    @property
    def sign(self) -> str:
        """The sign, which is there for the eye alone."""
        return SIGNS.get(self.word, "·")


@dataclass(frozen=True)
class Bar:
    """A cell with a number, beside which stands a bar as long as a share of the longest."""

    text: str
    share: float


@dataclass(frozen=True)
class Address:
    """A cell with an address that somebody else wrote: a link where it is one of the web, and else text."""

    url: str

    @property
    def is_web(self) -> bool:
        """Whether a browser may go there: addresses of other kinds run scripts, or open files."""
        return self.url.lower().startswith(("https://", "http://"))


SIGNS = {
    "conforms": "✓",
    "held": "✓",
    "killed": "✓",
    "reached": "✓",
    "fails": "✗",
    "failed": "✗",
    "SURVIVES": "✗",
    "too seldom": "✗",
    "inconclusive": "?",
    "interrupted": "!",
    "not run": "!",
    "nothing selected": "–",
    "missing": "–",
    "excluded": "–",
    "never": "–",
}
"""Beside a word, so that a verdict is found at a glance; the word says everything."""


@dataclass(frozen=True)
class Table:
    """A table, whose first column names its rows; columns that start with ``#`` hold numbers.

    ``key`` is the id of its caption, which names the region that it scrolls in.
    """

    key: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @property
    def titles(self) -> list[tuple[str, bool]]:
        """The columns, and whether each holds numbers."""
        return [(title.removeprefix("#"), title.startswith("#")) for title in self.columns]


def table(key: str, caption: str, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Table | None:
    """Return a table, or None where it would have no row."""
    listed = list(rows)
    return Table(key, caption, tuple(columns), listed) if listed else None


def count(number: Any) -> str:
    """Return a whole number with separators."""
    return f"{number:,}"


def seconds(number: Any) -> str:
    """Return seconds with two digits after the point."""
    return f"{number:,.2f}"
