"""Where the marks of a chart lie: times on logarithmic axes, of rows side by side and of rows that grow."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 380, 220
"""Units of a chart, which are pixels on a narrow screen."""

LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 38
ROW = 36
"""Units of a row: its name, and its bar below that."""

LONGEST_LABEL = 56
STEPS = (1, 2, 5)
MOST_TICKS = 6

LINES = {
    "median_us": "specsim",
    "floor_us": "floor",
    "eager_us": "specsim, single launches",
    "torch_us": "torch",
    "peer_us": "peer",
}
"""What each time of a row is called; its place says how its line is drawn, in the style of the page."""

UNITS = {"batch": "requests", "nodes": "nodes", "topk": "topk", "vocab": "vocabulary", "length": "tokens before"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Tick:
    """A place of an axis, and what stands there."""

    at: float
    label: str


@dataclass(frozen=True)
class Bar:
    """A row of a chart: its name, its bar and its range, and where the floor is; ``words`` say the same."""

    label: str
    words: str
    top: float
    end: float
    low: float
    high: float
    floor: float | None


@dataclass(frozen=True)
class Bars:
    """The rows of an operation, one below another, over an axis of microseconds."""

    title: str
    height: float
    start: float
    ticks: Sequence[Tick]
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Line:
    """One kind of time at several sizes: its points, and their words."""

    number: int
    label: str
    points: Sequence[tuple[float, float]]

    @property
    def path(self) -> str:
        """The points as an attribute of SVG."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True)
class Lines:
    """How an operation grows along an axis."""

    title: str
    unit: str
    words: str
    height: float
    xticks: Sequence[Tick]
    yticks: Sequence[Tick]
    lines: Sequence[Line]


def bars_of(operation: str, rows: Sequence[Row]) -> Bars:
    """Return the chart of an operation's rows."""
    floors = [row.get("floor_us") for row in rows]
    times = [row[key] for row in rows for key in ("low_us", "median_us", "high_us")]
    scale = _Scale([*times, *filter(None, floors)], LEFT - 36, WIDTH - RIGHT)
    bars = [
        Bar(
            _cut(row["shape"]),
            f"{row['shape']}: {row['median_us']:,.2f} µs, {row['low_us']:,.2f} to {row['high_us']:,.2f}",
            TOP + place * ROW,
            scale.at(row["median_us"]),
            scale.at(row["low_us"]),
            scale.at(row["high_us"]),
            None if floor is None else scale.at(floor),
        )
        for place, (row, floor) in enumerate(zip(rows, floors, strict=True))
    ]
    return Bars(operation, TOP + ROW * len(rows) + BOTTOM, scale.start, scale.ticks(), bars)


def lines_of(growth: Mapping[str, Any], rows: Mapping[tuple[str, str], Row]) -> Lines | None:
    """Return the chart of a row that grows, or None where none of it was timed."""
    found = [
        (size, rows[growth["operation"], shape])
        for size, shape in zip(growth["sizes"], growth["shapes"], strict=True)
        if (growth["operation"], shape) in rows
    ]
    series = {key: [(size, row[key]) for size, row in found if row.get(key) is not None] for key in LINES}
    series = {key: points for key, points in series.items() if points}
    if not series:
        return None
    across = _Scale([size for size, _ in found], LEFT, WIDTH - RIGHT)
    up = _Scale([us for points in series.values() for _, us in points], HEIGHT - BOTTOM, TOP)
    lines = [
        Line(number, LINES[key], [(across.at(size), up.at(us)) for size, us in series[key]])
        for number, key in enumerate(LINES)
        if key in series
    ]
    title = ", ".join(filter(None, (growth["operation"], growth["kind"])))
    xticks = [Tick(across.at(size), _short(size)) for size, _ in found]
    words = "; ".join(
        f"{LINES[key]}: " + ", ".join(f"{us:,.2f} µs at {size:,}" for size, us in points)
        for key, points in series.items()
    )
    height = HEIGHT + 18 * len(lines)
    return Lines(title, UNITS.get(growth["axis"], growth["axis"]), words, height, xticks, up.ticks(), lines)


class _Scale:
    """A logarithmic axis between two places, over values and what room they need."""

    def __init__(self, values: Iterable[float], start: float, end: float) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        self.low, self.high = min(positive) / 1.3, max(positive) * 1.3
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Return the place of a value."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[Tick]:
        """Return round numbers of the axis, as many as have room."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in (STEPS, (1, 3), (1,)):
            numbers = [step * 10.0**power for power in powers for step in steps]
            within = [number for number in numbers if self.low <= number <= self.high]
            if len(within) <= MOST_TICKS:
                break
        few = within[:: math.ceil(len(within) / MOST_TICKS) or 1]
        return [Tick(self.at(number), f"{number:,g}") for number in few]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 10_000 else f"{size:,g}"
