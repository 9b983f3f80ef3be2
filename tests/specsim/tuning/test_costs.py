"""Files of costs: what they predict, and what is refused of them."""

import json
import re

import pytest

from specsim.config import SpecConfig
from specsim.rejection import SpecRejection
from specsim.tuning.costs import ScheduledTimes, Shape, content_of, parse_costs


def grid(requests, tokens, lengths, seconds):
    return {"requests": requests, "tokens": tokens, "lengths": lengths, "seconds": seconds}


TARGET = grid([1, 9], [1, 5], [100, 300], [[[0.001, 0.002], [0.003, 0.004]], [[0.005, 0.006], [0.007, 0.016]]])
STEP = grid([1, 9], [1, 4], [100, 300], [[[0.0001, 0.0001], [0.0004, 0.0004]], [[0.0009, 0.0009], [0.0012, 0.0012]]])
EXTEND = grid([1, 9], [1, 5], [100, 300], [[[0.0002, 0.0002], [0.0002, 0.0002]], [[0.001, 0.001], [0.001, 0.001]]])
REST = {"iteration": 0.0001, "step": 0.00001, "node": 0.000002, "beam": 0.000001}
TIMES = {"target": TARGET, "draft_step": STEP, "draft_extend": EXTEND, "rest": REST}
FILE = {"schema": "specsim.costs/1", "device": "by hand", "iteration_times": TIMES, "error": 0.01}


def parsed(document):
    return parse_costs(json.dumps(document).encode())


def changed(path, value):
    """Return the file with one entry changed."""
    document = json.loads(json.dumps(FILE))
    place = document
    *before, last = path
    for part in before:
        place = place[part]
    place[last] = value
    return document


def test_an_iteration_is_the_sum_of_its_parts():
    times = parsed(FILE).iteration_times
    shape = Shape.of(SpecConfig(4, 2, 5))
    assert shape == Shape(4, 2, 5, 1, 1)
    expected = 0.004 + 0.0004 + 0.0002 + (0.0001 + 2 * 0.00001 + 5 * 0.000002 + 8 * 0.000001)
    assert times.iteration(shape, 1, 300) == pytest.approx(expected, abs=1e-15)
    assert times.plain(1, 100) == pytest.approx(0.001 + 0.0001 + 0.000002, abs=1e-15)


def test_between_probes_times_are_linear_and_outside_those_of_the_nearest():
    target = parsed(FILE).iteration_times.target
    assert target.at(1, 1, 200) == pytest.approx(0.0015)
    assert target.at(1, 3, 100) == pytest.approx(0.002)
    assert target.at(5, 1, 100) == pytest.approx(0.003)
    assert target.at(5, 3, 200) == pytest.approx((0.001 + 0.002 + 0.003 + 0.004 + 0.005 + 0.006 + 0.007 + 0.016) / 8)
    assert (target.at(0, 0, 1), target.at(99, 99, 999)) == (0.001, 0.016)


@pytest.mark.parametrize(
    ("shape", "num_requests", "length", "missing"),
    [
        (Shape(1, 4, 5, 3, 1), 9, 300, ""),
        (Shape(1, 5, 6, 4, 1), 9, 300, "target of 6 tokens, but 1 to 5 were measured"),
        (Shape(1, 4, 5, 3, 1), 10, 300, "target of 10 requests, but 1 to 9 were measured"),
        (Shape(1, 4, 5, 3, 1), 9, 99, "target of 99 lengths, but 100 to 300 were measured"),
        (Shape(5, 2, 5, 1, 1), 9, 300, "draft_step of 5 tokens, but 1 to 4 were measured"),
        (Shape(5, 1, 5, 0, 1), 9, 300, ""),
    ],
)
def test_what_was_not_measured_is_named(shape, num_requests, length, missing):
    assert parsed(FILE).iteration_times.lacks(shape, num_requests, length) == missing


def test_a_draft_without_a_table_is_named():
    times = parsed({"iteration_times": {"target": TARGET, "rest": REST}}).iteration_times
    assert times.lacks(Shape(1, 3, 4, 2, 1), 1, 100) == "the costs have no draft_extend"
    assert times.lacks(Shape(10, 0, 4, 0, 0), 1, 100) == ""


def test_a_budget_pays_for_its_rows_alone():
    times = parsed(FILE).iteration_times
    scheduled = ScheduledTimes(times, Shape(1, 4, 5, 3, 1), 100)
    whole = times.iteration(Shape(1, 4, 5, 3, 1), 1, 100)
    assert scheduled.yields(2.0, 1, 5) == pytest.approx(2 / whole)
    assert scheduled.yields(2.0, 1, 3) == pytest.approx(2 / (whole - 0.001))


def test_a_file_is_written_as_it_is_read():
    costs = parsed(FILE | {"memory": {"slots": 1000, "page_size": 4}})
    assert parse_costs(content_of(costs)) == costs
    assert "step_rates" not in json.loads(content_of(costs))


def test_requests_fit_with_what_they_keep_past_their_text():
    memory = parsed(FILE | {"memory": {"slots": 1000}}).memory
    assert memory.requests_that_fit(SpecConfig(1, 0, 1), 98) == 1000 // (98 + 2)
    assert memory.requests_that_fit(SpecConfig(4, 5, 16), 60) == 1000 // (60 + 2 * 20)


TARGET_AT = ("iteration_times", "target")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            changed((*TARGET_AT, "seconds", 0, 1, 0), None),
            "BAD_CONFIGURATION: iteration_times.target.seconds at 1 requests of 5 tokens after 100 is null, but should "
            "be a time, because a grid has no gaps",
        ),
        (
            changed((*TARGET_AT, "seconds", 1, 0, 1), -0.1),
            "BAD_CONFIGURATION: iteration_times.target.seconds at 9 requests of 1 tokens after 300 is -0.1, but should "
            "be above 0 and below 3600, because it is the time of a forward in seconds",
        ),
        (
            changed((*TARGET_AT, "seconds", 1), [[1.0, 1.0]]),
            "BAD_CONFIGURATION: iteration_times.target.seconds at 9 requests, entries is 1, but should be 2, because "
            "there is one for each of its tokens",
        ),
        (
            changed((*TARGET_AT, "seconds", 1, 1), [1.0]),
            "BAD_CONFIGURATION: iteration_times.target.seconds at 9 requests of 5 tokens, entries is 1, but should be "
            "2, because there is one for each of its lengths",
        ),
        (
            changed((*TARGET_AT, "requests"), [9, 1]),
            "BAD_CONFIGURATION: iteration_times.target.requests is [9, 1], but should be ascending whole numbers from "
            "1, because they are looked up",
        ),
        (
            changed((*TARGET_AT, "lengths"), []),
            "BAD_CONFIGURATION: iteration_times.target.lengths is [], but should be ascending whole numbers from 1, "
            "because they are looked up",
        ),
        (
            changed(("iteration_times", "rest", "node"), -1.0),
            "BAD_CONFIGURATION: iteration_times.rest.node is -1.0, but should be 0 to 3600, because it is a time in "
            "seconds",
        ),
        (
            changed(("error",), 1.5),
            "BAD_CONFIGURATION: error is 1.5, but should be 0 to 1, because it is a share of a time",
        ),
        (
            changed(("schema",), "specsim.costs/9"),
            "BAD_CONFIGURATION: schema is specsim.costs/9, but should be specsim.costs/1, because no other form is "
            "known",
        ),
        (
            FILE | {"memory": {"slots": 0}},
            "BAD_CONFIGURATION: memory.slots is 0, but should be at least 1, because it counts slots",
        ),
        ({}, "should have one table, step_rates, step_times, captured_times, iteration_times"),
        (
            FILE | {"step_rates": {"probes": [1], "rates": [1]}},
            "should have one table, step_rates, step_times, captured_times, iteration_times",
        ),
        (
            changed(("iteration_times", "rest"), {}),
            "Object missing required field `iteration` - at `$.iteration_times.rest`",
        ),
        (FILE | {"times": 3}, "Object contains unknown field `times`"),
    ],
)
def test_gaps_and_times_that_are_none_are_refused_with_the_place(document, message):
    with pytest.raises((SpecRejection, ValueError), match=f"^{re.escape(message)}$"):
        parsed(document)
