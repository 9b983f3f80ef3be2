"""A case as one picture: each request's tree or chain, its slots, and what was expected and observed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from specsim.conformance.outcomes import Observation, first_difference
from specsim.conformance.pictures.slots import draw_batch_slots, draw_slots_of
from specsim.conformance.pictures.trees import draw_tree_of
from specsim.conformance.pictures.view import MOST_REQUESTS, Draw, View
from specsim.conformance.plain_text import first_line
from specsim.pictures.frame import Panel, draw_panels, stacked, text_panel
from specsim.pictures.table import table_panel
from specsim.rejection import SpecRejection

DRAWN: tuple[Draw, ...] = (draw_tree_of, draw_slots_of)
"""What is drawn of a request."""

MALFORMED = (SpecRejection, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What arrays raise that are not those of the operation: a case made by hand may hold anything."""

MOST_TEXT, MOST_ROWS, MOST_LINES, LONGEST_LINE = 60, 40, 6, 100
"""Characters of an array in a table, rows of a table, and lines of a message with their characters."""


class Drawable(Protocol):
    """What is drawn of a case; ``Case`` has it."""

    @property
    def operation(self) -> str:
        """The operation that was called."""

    @property
    def property_name(self) -> str:
        """The property that found it."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Every argument by its name."""

    @property
    def expected(self) -> Observation:
        """What the reference gives."""

    @property
    def observed(self) -> Observation:
        """What the implementation gave."""

    @property
    def message(self) -> str:
        """What the property said."""

    @property
    def id(self) -> str:
        """The hash that names it."""


def draw_case(case: Drawable, *, prefix: str = "") -> str:
    """Return a case as a document of SVG.

    Of each request its tree or chain and its slots are drawn, as expected, and as observed where that differs. A case
    that has neither, or arrays that its operation would refuse, is drawn as a table of its arrays.

    Parameters
    ----------
    case : Case
        As ``read_case`` returns it.
    prefix : str
        What ids begin with, one of its own for each picture of a page; no ids if empty.
    """
    title = f"{case.operation}, found by {case.property_name}"
    try:
        title = f"{case.operation}, case {case.id}, found by {case.property_name}"
        drawings, outcomes = [*_drawings(case)], _outcomes(case)
    except MALFORMED as error:
        drawings = [text_panel([f"arrays of another form: {type(error).__name__}: {first_line(error)}"], "faint")]
        parts = {"arguments": case.arguments, "expected": case.expected.outputs, "observed": case.observed.outputs}
        drawings += [_arrays(title, arrays) for title, arrays in parts.items() if arrays]
        outcomes = []
    else:
        drawings = drawings or [_arrays("arguments", case.arguments)]
    message = text_panel(_lines_of(case.message), "faint") if case.message else None
    panels = [*([message] if message else []), *drawings, *outcomes]
    return draw_panels(panels, title, prefix=prefix)


def draw_call(operation: str, arguments: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    """Return a call and what it gives as a document of SVG: trees, chains and slots, or tables of its arrays."""
    view = View.of(operation, arguments, outputs)
    panels = [
        _captioned(f"request {request}", panel)
        for request in range(min(view.num_requests, MOST_REQUESTS))
        for draw in DRAWN
        if (panel := draw(view, request)) is not None
    ]
    batch = draw_batch_slots(view)
    panels += [_captioned("batch", batch)] if batch is not None else []
    return draw_panels(panels or [_arrays("arguments", arguments), _arrays("outputs", outputs)], operation)


def _drawings(case: Drawable) -> Iterator[Panel]:
    """Yield what can be drawn of each request, as expected, and as observed where that is drawn in another way."""
    views = {
        name: View.of(case.operation, case.arguments, one.outputs)
        for name, one in (("expected", case.expected), ("observed", case.observed))
        if one.outputs or name == "expected"
    }
    num_requests = max(view.num_requests for view in views.values())

    def drawings(caption: str, draw: Callable[[View], Panel | None]) -> Iterator[Panel]:
        drawn = {name: panel for name, view in views.items() if (panel := draw(view)) is not None}
        if len({panel.markup for panel in drawn.values()}) == 1:
            yield _captioned(caption, next(iter(drawn.values())))
        else:
            yield from (_captioned(f"{caption}, {name}", panel) for name, panel in drawn.items())

    for request in range(min(num_requests, MOST_REQUESTS)):
        for draw in DRAWN:
            yield from drawings(f"request {request}", partial(_of_request, draw, request))
    yield from drawings("batch", draw_batch_slots)
    if num_requests > MOST_REQUESTS:
        yield text_panel([f"{num_requests - MOST_REQUESTS} more requests are not drawn"], "faint")


def _of_request(draw: Draw, request: int, view: View) -> Panel | None:
    return draw(view, request)


def _captioned(caption: str, panel: Panel) -> Panel:
    return stacked([text_panel([caption]), panel], gap=8)


def _outcomes(case: Drawable) -> list[Panel]:
    """Return where what was observed differs from what was expected, entries without meaning left out."""
    try:
        difference = first_difference(case.operation, case.arguments, case.expected, case.observed)
    except MALFORMED:
        difference = ""
    if difference is None:
        return []
    ends = tuple("" if one.outputs else _end_of(one) for one in (case.expected, case.observed))
    if any(ends):
        return [table_panel(("", "expected", "observed"), [("outcome", *(end or "outputs" for end in ends))])]
    expected, observed = case.expected.outputs, case.observed.outputs
    words = [(name, _in_words(expected[name]), _in_words(observed.get(name))) for name in expected]
    rows = [row for row in words if row[1] != row[2]]
    line = [] if difference in case.message else [text_panel(_lines_of(difference))]
    return [*line, *([table_panel(("not equal", "expected", "observed"), rows[:MOST_ROWS])] if rows else [])]


def _end_of(observation: Observation) -> str:
    return (observation.in_words().splitlines() or [""])[0][:LONGEST_LINE]


def _arrays(title: str, arrays: Mapping[str, Any]) -> Panel:
    rows = []
    for name, value in arrays.items():
        entries = (
            [(f"{name}[{place}]", one) for place, one in enumerate(value)]
            if isinstance(value, list)
            else [(name, value)]
        )
        for label, entry in entries:
            is_array = isinstance(entry, np.ndarray)
            rows.append((label, f"{entry.dtype.name} {list(entry.shape)}" if is_array else "", _in_words(entry)))
    more = len(rows) - MOST_ROWS
    shown_rows = [*rows[:MOST_ROWS], *([(f"{more} more", "", "")] if more > 0 else [])]
    return stacked([text_panel([title]), table_panel(("name", "form", "entries"), shown_rows)], gap=6)


def _in_words(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, list):
        return f"{len(value)} arrays: " + "; ".join(_in_words(entry) for entry in value[:3])
    if isinstance(value, np.ndarray):
        # NOTE: of a large array only as many entries are made into text as can be shown.
        few = value.reshape(-1)[:MOST_TEXT].tolist() if value.size > MOST_TEXT else value.tolist()
        words = str(few)
    else:
        words = str(value)
    return words if len(words) <= MOST_TEXT else f"{words[:MOST_TEXT]} …"


def _lines_of(message: str) -> Sequence[str]:
    """Return a message in lines that fit."""
    lines = [
        line[start : start + LONGEST_LINE]
        for line in message.splitlines()
        for start in range(0, max(len(line), 1), LONGEST_LINE)
    ]
    return [*lines[:MOST_LINES], *(["…"] if len(lines) > MOST_LINES else [])]
