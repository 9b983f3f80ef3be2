"""The timeline of a run: requests as rows, launches as columns, the two streams, and slots in use."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape

from specsim.pictures.frame import Panel, draw_panels, moved, text_panel
from specsim.pictures.markup import FONT_SIZE, element, number, shown, text, width_of

ROW, GAP, CHART, LEAST_COLUMN = 24, 3, 72, 34
"""Pixels: a row, between two cells, the height of the chart of slots, and the least width of a column."""


class Activity(Enum):
    """What a request does in a launch; the value is what a legend and a description say."""

    PREFILL = "prefill, prompt tokens"
    VERIFY = "draft and verify, accepted/proposed drafts"
    DROPPED = "result dropped"
    IDLE = "idle"
    WAITING = "waits for a row"
    RETRACTED = "retracted"
    FINISHED = "finished"


BOXES: dict[Activity, tuple[str, dict[str, object]]] = {
    Activity.PREFILL: ("prefill", {"rx": 10}),
    Activity.VERIFY: ("accepted", {"rx": 2}),
    Activity.DROPPED: ("rejected", {"rx": 2, "stroke_dasharray": "5 3"}),
    Activity.RETRACTED: ("rejected", {"rx": 10, "stroke_width": 2}),
}
"""What paints the cell of an activity that has one, and the shape of its box."""

LINES: dict[Activity, dict[str, object]] = {Activity.IDLE: {}, Activity.WAITING: {"stroke_dasharray": "1.5 4"}}
"""Activities that are a line, and its attributes."""


@dataclass(frozen=True)
class Moment:
    """What a request does in one launch.

    Parameters
    ----------
    activity : Activity
        What it does.
    label : str
        Text in its cell.
    ends : str
        Why it ended with the result of this launch; empty if it did not.
    """

    activity: Activity
    label: str = ""
    ends: str = ""


@dataclass(frozen=True)
class Column:
    """One launch.

    Parameters
    ----------
    kind : str
        What was launched, ``prefill`` or ``verify``.
    moments : tuple of Moment
        One a row.
    num_slots : int
        The most KV slots that were in use until its result was read.
    results : tuple of int
        The launches whose results the host read before the next launch: earlier ones if it works while the device
        computes, its own if it waits.
    """

    kind: str
    moments: tuple[Moment, ...]
    num_slots: int
    results: tuple[int, ...] = ()


def draw_timeline(
    rows: Sequence[str],
    columns: Sequence[Column],
    num_usable_slots: int,
    title: str = "timeline",
    notes: Sequence[str] = (),
    *,
    prefix: str = "",
) -> str:
    """Return a timeline as a document of SVG.

    Below the requests stand two streams: which launch the device computes, and which results the host reads
    meanwhile, or after it where it waits. Below them stands how many slots are in use.

    Parameters
    ----------
    rows : sequence of str
        Names of the requests.
    columns : sequence of Column
        The launches, in order.
    num_usable_slots : int
        Slots of the pool.
    title, notes : str, sequence of str
        Drawn above; remarks in lines of their own.
    prefix : str
        As for ``draw_panels``.
    """
    panels = [_legend(columns), timeline_panel(rows, columns, num_usable_slots)]
    return draw_panels([*panels, *([text_panel(notes, "faint")] if notes else [])], title, prefix=prefix)


def timeline_panel(rows: Sequence[str], columns: Sequence[Column], num_usable_slots: int) -> Panel:
    """Return a timeline without its legend as a panel; see ``draw_timeline``."""
    peak = max((column.num_slots for column in columns), default=0)
    lanes = ["launch", *rows, "device computes", "host reads", "slots in use"]
    left = max(*map(width_of, lanes), width_of(f"{peak:,}")) + 14
    labels = [moment.label for column in columns for moment in column.moments]
    labels += [str(len(columns))]
    width = max(LEAST_COLUMN, max(map(width_of, labels)) + 10)
    for place, column in enumerate(columns):
        read = _read_in_turn(place, column)
        shares = 2 if read[1] else 1
        width = max(width, shares * (max(width_of(_listed(one)) for one in read) + 6) + GAP)
    parts = [text(0, FONT_SIZE + 3, "launch", "faint")]
    for place in range(len(columns)):
        parts.append(_centred(left + width * (place + 0.5), FONT_SIZE + 3, str(place), "faint"))
    for line, row in enumerate(rows, 1):
        parts.append(text(0, ROW * line + FONT_SIZE + 3, row))
        for place, column in enumerate(columns):
            moment = column.moments[line - 1]
            words = f"{row}, launch {place}: {_moment_in_words(moment)}"
            parts.append(moved(_cell(moment, words, width), left + width * place, ROW * line))
    top = ROW * (len(rows) + 1) + 10
    parts += [
        text(0, top + ROW * lane + FONT_SIZE + 3, name) for lane, name in enumerate(("device computes", "host reads"))
    ]
    for place, column in enumerate(columns):
        parts.append(moved(_streams(place, column, width), left + width * place, top))
    chart = top + 2 * ROW + 16
    parts.append(moved(_chart(columns, width, left, peak), 0, chart))
    total = left + width * len(columns) + 2
    caption = f"most {peak:,} of {num_usable_slots:,} slots"
    parts.append(text(left, chart + CHART + FONT_SIZE + 6, caption, "faint"))
    height = chart + CHART + FONT_SIZE + 10
    return Panel(max(total, left + width_of(caption)), height, "".join(parts), _in_words(rows, columns, caption))


def _cell(moment: Moment, words: str, width: float) -> str:
    right, bottom = width - GAP, ROW - GAP
    parts = [element("title", "", escape(shown(words)))]
    if moment.activity in BOXES:
        kind, shape = BOXES[moment.activity]
        parts.append(element("rect", kind, width=right, height=bottom, **shape))
        label = "x" if moment.activity is Activity.RETRACTED else moment.label
        parts.append(_centred(right / 2, FONT_SIZE + 3, label))
    elif moment.activity in LINES:
        path = f"M2,{number(bottom / 2)}H{number(right - 2)}"
        parts.append(element("path", "edge", d=path, **LINES[moment.activity]))
    if moment.ends:
        parts.append(element("rect", "ink", x=right - 3, width=4, height=bottom))
    ends = {"data_ends": shown(moment.ends)} if moment.ends else {}
    return element("g", "", "".join(parts), data_activity=moment.activity.name.lower(), **ends)


def _streams(place: int, column: Column, width: float) -> str:
    """Return what the device computes and what the host reads: side by side in time where the host waits."""
    earlier, own = _read_in_turn(place, column)
    right = width - GAP
    middle = right / 2 if own else right
    parts = [_block("bonus", 0, middle, 0, str(place))]
    parts += [_block("plain", 0, middle, ROW, _listed(earlier))] if earlier else []
    parts += [_block("plain", middle, right, ROW, _listed(own))] if own else []
    return element("g", "", "".join(parts), data_streams="in turn" if own else "overlapped")


def _read_in_turn(place: int, column: Column) -> tuple[Sequence[int], Sequence[int]]:
    """Return the results that the host reads while a launch is computed, and after it."""
    earlier = [one for one in column.results if one != place]
    return earlier, [place] if place in column.results else []


def _block(kind: str, begin: float, end: float, top: float, words: str) -> str:
    box = element("rect", kind, x=begin, y=top, width=end - begin, height=ROW - GAP, rx=2)
    return box + _centred((begin + end) / 2, top + FONT_SIZE + 3, words)


def _chart(columns: Sequence[Column], width: float, left: float, peak: int) -> str:
    """Return a line of slots in use, with its axes."""

    def height_of(count: int) -> str:
        return number(CHART * (1 - count / max(peak, 1)))

    parts = [text(0, CHART / 2, "slots in use"), text(left - width_of("0") - 6, CHART, "0", "faint")]
    if peak:
        parts.append(text(left - width_of(f"{peak:,}") - 6, FONT_SIZE - 2, f"{peak:,}", "faint"))
    parts.append(element("path", "rule", d=f"M{number(left)},0V{CHART}H{number(left + width * len(columns))}"))
    line = []
    for place, column in enumerate(columns):
        begin, end, height = left + width * place, left + width * (place + 1), height_of(column.num_slots)
        line.append(f"{'L' if place else 'M'}{number(begin)},{height}H{number(end)}")
    if line:
        parts.append(element("path", "bonus-line", d="".join(line), stroke_width=2))
    return "".join(parts)


def _legend(columns: Sequence[Column]) -> Panel:
    """Return what the looks of the activities mean that there are, one below another."""
    found = {moment.activity for column in columns for moment in column.moments}
    rows: list[Activity] = [one for one in Activity if one in found and one is not Activity.FINISHED]
    parts = []
    for line, activity in enumerate(rows):
        example = Moment(activity, {Activity.PREFILL: "32", Activity.VERIFY: "2/5"}.get(activity, ""))
        parts.append(moved(_sample(example), 0, ROW * line))
        parts.append(text(46, ROW * line + FONT_SIZE + 3, activity.value, "faint"))
    if any(moment.ends for column in columns for moment in column.moments):
        parts.append(element("rect", "ink", x=16, y=ROW * len(rows), width=4, height=ROW - GAP))
        parts.append(text(46, ROW * len(rows) + FONT_SIZE + 3, "the request ends", "faint"))
        rows = [*rows, Activity.FINISHED]
    width = 46 + max((width_of(activity.value) for activity in rows), default=0)
    return Panel(width, ROW * len(rows), "".join(parts), "")


def _sample(moment: Moment) -> str:
    return _cell(moment, moment.activity.value, 40).replace(" data-activity=", " data-sample=")


def _centred(x: float, y: float, words: str, kind: str = "ink") -> str:
    return text(x, y, words, kind, text_anchor="middle")


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _moment_in_words(moment: Moment) -> str:
    label = f" {moment.label}" if moment.label else ""
    ends = f", ends: {moment.ends}" if moment.ends else ""
    return f"{moment.activity.value}{label}{ends}"


def _in_words(rows: Sequence[str], columns: Sequence[Column], caption: str) -> str:
    sentences = []
    for line, row in enumerate(rows):
        moments = [(place, column.moments[line]) for place, column in enumerate(columns)]
        done = [
            f"launch {place} {_moment_in_words(moment)}"
            for place, moment in moments
            if moment.activity is not Activity.FINISHED
        ]
        sentences.append(shown(f"{row}: ") + ", ".join(map(shown, done)))
    for place, column in enumerate(columns):
        if column.results:
            when = "after it" if place in column.results else "meanwhile"
            sentences.append(
                f"launch {place}: the host reads {_listed(column.results)} {when}; {column.num_slots} slots in use"
            )
    return ". ".join([*sentences, caption])
