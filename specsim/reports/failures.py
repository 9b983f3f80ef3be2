"""Failures as a page shows them: the law in words, the case drawn, expected beside got, the line that replays it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from specsim.conformance.cases import Case, read_case
from specsim.conformance.drawing import in_words
from specsim.conformance.pictures import draw_case
from specsim.rejection import SpecRejection
from specsim.reports.compared import Compared, compared

MOST_FULL = 900_000
"""Characters of pictures, arrays and tracebacks of a page; failures beyond have their message and what replays them."""

LONGEST_MESSAGE, LONGEST_TRACE, LONGEST_ARGUMENT = 2_000, 4_000, 300
MOST_BRIEF = 300
"""Characters of the message of a failure beyond."""

MOST_LINES = 200
"""Lines of a history."""


@dataclass(frozen=True)
class Laws:
    """What laws state, as a document has it by name, and the address of the documentation, which may be empty."""

    docs: str = ""
    stated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def address(self, name: str) -> str:
        """Return where a law stands among the properties; empty where there is no documentation to link."""
        if not self.docs:
            return ""
        is_generated = name in self.stated and not self.stated[name]["number"]
        place = "of-every-operation" if is_generated else f"laws:~:text={quote(name, safe='')}"
        return f"{self.docs}properties.md#{place}"


@dataclass(frozen=True)
class Shown:
    """A failure as a page shows it.

    Parameters
    ----------
    key : str
        Its id on the page.
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
    picture : Markup
        The case drawn; empty where there is none.
    compared : sequence
        What is expected beside what was got, an output each.
    arguments : sequence of (name, words)
        Of the call.
    why_no_case : str
        Why nothing is drawn; empty where there is a picture.
    """

    key: str
    record: Mapping[str, Any]
    message: str
    expected: str
    got: str
    law: Mapping[str, Any] | None
    address: str
    trace: str = ""
    history: Sequence[str] = ()
    is_full: bool = False
    picture: Markup = Markup()
    compared: Sequence[Compared] = ()
    arguments: Sequence[tuple[str, str]] = ()
    why_no_case: str = ""

    @property
    def length(self) -> int:
        """How many characters of the page it takes, about."""
        entries = sum(len(line) for one in self.compared for line in one.pieces)
        words = sum(len(name) + len(value) for name, value in self.arguments)
        return len(self.picture) + len(self.trace) + len(self.message) + 40 * entries + words + sum(map(len, self.history))


def shown_failures(records: Sequence[Mapping[str, Any]], laws: Laws) -> list[Shown]:
    """Return failures in their order: the first in full, as long as there is room, and what has to be known of all."""
    shown, room = [], MOST_FULL
    for number, record in enumerate(records, 1):
        one = _in_full(f"failure-{number}", record, laws) if room > 0 else None
        if one is None or one.length > room:
            # NOTE: one that is larger than what is left may stand before many smaller ones.
            one = _in_short(f"failure-{number}", record, laws)
        else:
            room -= one.length
        shown.append(one)
    return shown


def _in_short(key: str, record: Mapping[str, Any], laws: Laws) -> Shown:
    name = record["property"]
    words = record["difference"] or record["message"]
    got, _, expected = words.partition(", but should be ")
    message = _cut(record["message"], MOST_BRIEF)
    return Shown(key, record, message, _cut(expected, MOST_BRIEF), _cut(got, MOST_BRIEF), None, laws.address(name))


def _in_full(key: str, record: Mapping[str, Any], laws: Laws) -> Shown:
    short = vars(_in_short(key, record, laws))
    trace = record["error"]
    more: dict[str, Any] = {
        "message": _cut(record["message"], LONGEST_MESSAGE),
        "law": laws.stated.get(record["property"]),
        # NOTE: what was raised stands at the end of a traceback.
        "trace": trace if len(trace) <= LONGEST_TRACE else f"… {trace[-LONGEST_TRACE:]}",
        "history": _first_lines(record["history"] or ()),
        "is_full": True,
    }
    if record["case"] is None:
        return Shown(**{**short, **more})
    try:
        case = read_case(Path(record["case"]))
    except (SpecRejection, OSError, RecursionError) as error:
        return Shown(**{**short, **more, "why_no_case": f"The case file cannot be read: {error}"})
    return Shown(**{**short, **more, **_of_case(key, case)})


def _of_case(key: str, case: Case) -> dict[str, Any]:
    """Return what a case file shows."""
    # NOTE: the picture is the only markup that is not escaped by the templates: it is our own, and its texts are
    # escaped where it is drawn. Everything else that comes from a case is text.
    picture = Markup(draw_case(case, prefix=f"{key}-"))
    arguments = [(name, in_words(value, LONGEST_ARGUMENT)) for name, value in case.arguments.items()]
    if case.law is not None and case.law.coins:
        arguments.append(("the cell of the coins", case.law.in_words()))
    return {"picture": picture, "compared": compared(case), "arguments": arguments}


def _first_lines(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"… and {more} lines more"] if more > 0 else [])]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
