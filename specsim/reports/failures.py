"""Failures as a page shows them: the law in words, the case drawn, expected beside got, the line that replays it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from specsim.conformance.cases import Case, read_case
from specsim.conformance.drawing import in_words
from specsim.conformance.pictures import draw_case
from specsim.rejection import SpecRejection
from specsim.reports.compared import Compared, compared

LONGEST_PAGE, LEAST_FULL, IN_SHORT, A_ROW = 1_600_000, 300_000, 1_100, 300
"""Characters of a page, those of failures in full at least, of a failure in short, and of a row of a table, about."""

LONGEST_MESSAGE, LONGEST_TRACE, LONGEST_ARGUMENT = 2_000, 4_000, 300
LARGEST_PICTURE = 200_000
"""Characters of a picture: a tree of hundreds of nodes is no picture any more."""

MOST_BRIEF = 200
"""Characters of the message of a failure beyond."""

FRAME, MARKED = 3_000, 40
"""Characters of the markup around a failure, and around an entry of an array, about."""

MOST_LINES = 200
"""Lines of a history."""


@dataclass(frozen=True)
class Laws:
    """What laws state, as a document has it by name, and the address of the documentation, which may be empty."""

    docs: str = ""
    stated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Return where the documentation has a law; empty if it is none, or no documentation is there to link."""
        if not self.docs or name not in self.stated:
            return ""
        page, _, heading = self.stated[name]["place"].partition("#")
        if self.docs.startswith(("https://", "http://")):
            # NOTE: the site spells pages and headings in its own way.
            page, heading = page.replace(".md", ".html"), heading.replace("_", "-")
        return f"{self.docs}{page}#{heading}:~:text={quote(name, safe='')}"


@dataclass(frozen=True)
class Shown:
    """A failure as a page shows it.

    Parameters
    ----------
    key, title : str
        Its id on the page, and its head.
    record : mapping
        What the document has of it.
    message, trace : str
        As much of them as is shown.
    expected, got : str
        The two values that its message compares, where it does.
    law : mapping or None
        What its property states.
    address : str
        Where that stands; may be empty.
    history : sequence of str
        The shortest history, a line an action.
    is_full : bool
        Whether what follows was looked for.
    picture : Markup or None
        The case drawn.
    compared : sequence
        What is expected beside what was got, an output each.
    arguments : sequence of (name, words)
        Of the call.
    why_no_case : str
        Why nothing is drawn; empty where there is a picture.
    """

    key: str
    title: str
    record: Mapping[str, Any]
    message: str
    expected: str
    got: str
    law: Mapping[str, Any] | None
    address: str
    trace: str = ""
    history: Sequence[str] = ()
    is_full: bool = False
    picture: Markup | None = None
    compared: Sequence[Compared] = ()
    arguments: Sequence[tuple[str, str]] = ()
    why_no_case: str = ""

    @property
    def length(self) -> int:
        """How many characters of the page it takes, about."""
        entries = sum(len(line) for one in self.compared for line in one.pieces)
        words = (self.message, self.trace, self.picture or "", *self.history, *(value for _, value in self.arguments))
        return FRAME + sum(map(len, words)) + MARKED * entries


def shown_failures(
    records: Sequence[Mapping[str, Any]], laws: Laws, *, num_rows: int = 0, unit: str = ""
) -> list[Shown]:
    """Return failures in their order: the first in full, as long as there is room, and what has to be known of all.

    Parameters
    ----------
    num_rows : int
        Rows of tables that stand on the same page.
    unit : str
        What fails, where several failures are of one property; its number is that of the first example.
    """
    room = max(LEAST_FULL, LONGEST_PAGE - IN_SHORT * len(records) - A_ROW * num_rows)
    shown = []
    for number, record in enumerate(records, 1):
        key, title = f"failure-{number}", record["property"]
        if unit and record["example"] is not None:
            title += f", {unit} {record['example']}"
        one = _in_short(key, title, record, laws)
        # NOTE: once there is no room, the rest is not even read: a run may save a thousand cases.
        full = _in_full(one) if room > 0 else one
        room = room - full.length if full.length <= room else 0
        shown.append(full if room > 0 else one)
    return shown


def _in_short(key: str, title: str, record: Mapping[str, Any], laws: Laws) -> Shown:
    name = record["property"]
    words = record["difference"] or record["message"]
    got, _, expected = words.partition(", but should be ")
    message, expected, got = (_cut(text, MOST_BRIEF) for text in (record["message"], expected, got))
    return Shown(key, title, record, message, expected, got, laws.stated.get(name), laws.address(name))


def _in_full(short: Shown) -> Shown:
    record = short.record
    trace = record["error"]
    more: dict[str, Any] = {
        "message": _cut(record["message"], LONGEST_MESSAGE),
        # NOTE: what was raised stands at the end of a traceback.
        "trace": trace if len(trace) <= LONGEST_TRACE else f"… {trace[-LONGEST_TRACE:]}",
        "history": _first_lines(record["history"] or ()),
        "is_full": True,
    }
    if record["case"] is None:
        return replace(short, **more)
    try:
        case = read_case(Path(record["case"]))
    except (SpecRejection, OSError, RecursionError) as error:
        return replace(short, **more, why_no_case=f"The case file cannot be read: {error}")
    return replace(short, **more, **_of_case(short.key, case))


def _of_case(key: str, case: Case) -> dict[str, Any]:
    """Return what a case file shows."""
    # NOTE: the picture is the only markup that is not escaped by the templates: it is our own, and its texts are
    # escaped where it is drawn. Everything else that comes from a case is text.
    drawn = draw_case(case, prefix=f"{key}-")
    picture = Markup(drawn) if len(drawn) <= LARGEST_PICTURE else None
    arguments = [(name, in_words(value, LONGEST_ARGUMENT)) for name, value in case.arguments.items()]
    if case.law is not None and case.law.coins:
        arguments.append(("the cell of the coins", case.law.in_words()))
    why = "" if picture else "The picture is too large for this page: specsim show with the case file draws it."
    return {"picture": picture, "compared": compared(case), "arguments": arguments, "why_no_case": why}


def _first_lines(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"… and {more} lines more"] if more > 0 else [])]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
