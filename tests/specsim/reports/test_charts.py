"""Where the marks of charts lie."""

import pytest

from specsim.reports.charts import LEFT, MOST_TICKS, RIGHT, TOP, WIDTH, bars_of, lines_of
from tests.specsim.reports.runs import timed

ROWS = [
    {"operation": "x", "shape": f"{us} µs", "median_us": us, "low_us": us / 2, "high_us": us * 2} for us in (1, 10, 100)
]
GROWTH = {"axis": "batch", "operation": "x", "kind": "k 50", "sizes": [1, 4, 16], "shapes": ["1 µs", "10 µs", "lost"]}


def test_bars_lie_on_a_logarithmic_axis_within_the_chart():
    chart = bars_of("x", ROWS)
    first, second, third = (bar.end for bar in chart.bars)
    assert second - first == pytest.approx(third - second, abs=0.2)
    for bar in chart.bars:
        assert chart.start < bar.low < bar.end < bar.high < WIDTH - RIGHT and bar.floor is None
    assert [bar.label for bar in chart.bars] == ["1 µs", "10 µs", "100 µs"]
    assert chart.bars[0].words == "1 µs: 1.00 µs, 0.50 to 2.00"


@pytest.mark.parametrize("longest", [1.5, 20, 1e3, 1e5, 1e9])
def test_an_axis_has_a_few_round_numbers_in_order(longest):
    rows = [{**ROWS[0], "median_us": us, "low_us": us, "high_us": us} for us in (1, longest)]
    ticks = bars_of("x", rows).ticks
    places = [tick.at for tick in ticks]
    assert 1 <= len(ticks) <= MOST_TICKS and places == sorted(places)
    assert {tick.label.replace(",", "").lstrip("0.")[0] for tick in ticks} <= {"1", "2", "3", "5"}


def test_what_was_not_timed_has_no_point():
    chart = lines_of(GROWTH, {("x", row["shape"]): row for row in ROWS})
    (line,) = chart.lines
    (left, low), (right, high) = line.points
    assert (line.label, chart.title, chart.unit) == ("specsim", "x, k 50", "requests")
    assert LEFT <= left < right <= WIDTH - RIGHT and TOP <= high < low
    assert [tick.label for tick in chart.xticks] == ["1", "4"]
    assert chart.words == "specsim: 1.00 µs at 1, 10.00 µs at 4"
    assert lines_of(GROWTH, {}) is None


def test_each_kind_of_time_has_a_line_of_its_own():
    document = timed()
    rows = {(row["operation"], row["shape"]): row for row in document["rows"]}
    chart = lines_of(document["growth"][0], rows)
    assert [line.label for line in chart.lines] == ["specsim", "floor", "specsim, single launches", "peer"]
    assert len({line.number for line in chart.lines}) == 4
