"""Rankings by hand for a small file of costs."""

import pytest

from specsim.tuning.counted import Cell, RequestCounts
from specsim.tuning.tune import rank
from tests.specsim.tuning.test_costs import FILE, parsed

ALWAYS_TWO = tuple(RequestCounts.of(str(place), (0.0, 0.0, 8.0)) for place in range(6))
ALWAYS_ONE = tuple(RequestCounts.of(str(place), (0.0, 8.0)) for place in range(6))
ONE_OR_NONE = tuple(RequestCounts.of(str(place), (8.0 * (place % 2), 8.0 * (1 - place % 2))) for place in range(6))


def chain(steps, requests, **more):
    return Cell("EAGLE", 1, steps, steps + 1, step_forwards=steps - 1, extend_forwards=1, requests=requests, **more)


def ranked(cells, batch=1, length=100, **more):
    costs = parsed(FILE | more)
    return rank(cells, costs, costs.iteration_times, batch, length, 0)


def test_tokens_per_second_by_hand():
    """The target takes 1 ms for a token and half a millisecond for each further one."""
    best, second, plain = ranked([chain(1, ALWAYS_ONE), chain(2, ALWAYS_TWO)])
    seconds = 0.002 + 0.0001 + 0.0002 + (0.0001 + 2 * 0.00001 + 3 * 0.000002 + 2 * 0.000001)
    assert (best.cell.steps, second.cell.steps, plain.cell) == (2, 1, None)
    assert best.seconds == pytest.approx(seconds, abs=1e-15)
    assert best.tokens_per_second.value == pytest.approx(3 / seconds)
    seconds = 0.0015 + 0.0002 + (0.0001 + 0.00001 + 2 * 0.000002 + 0.000001)
    assert second.tokens_per_second.value == pytest.approx(2 / seconds)
    assert plain.tokens_per_second.value == pytest.approx(1 / 0.001102)
    assert best.speedup.value == pytest.approx(best.tokens_per_second.value / plain.tokens_per_second.value)
    assert (plain.speedup.value, plain.seconds) == (1.0, pytest.approx(0.001102))


def test_a_batch_outputs_tokens_of_all_its_requests():
    best, _ = ranked([chain(1, ALWAYS_ONE)], batch=9)
    seconds = 0.0055 + 0.001 + (0.0001 + 0.00001 + 18 * 0.000002 + 9 * 0.000001)
    assert best.tokens_per_second.value == pytest.approx(18 / seconds)


def test_drafts_that_are_not_worth_it_come_after_none():
    hopeless = chain(2, tuple(RequestCounts.of(str(place), (8.0,)) for place in range(6)))
    plain, drafts = ranked([hopeless])
    assert (plain.cell, drafts.cell) == (None, hopeless)
    assert drafts.speedup.value < 1 and not drafts.is_tied


def test_configurations_within_the_noise_are_tied():
    """Three prompts accept every draft and three none: six of them may be worth one token a verify as well as two."""
    plain, drafts = ranked([chain(1, ONE_OR_NONE)])
    assert (plain.cell, drafts.is_tied) == (None, True)
    assert ranked([chain(1, ALWAYS_ONE), chain(2, ALWAYS_TWO)])[1].is_tied is False


def test_times_within_their_error_are_tied():
    cells = [chain(1, ALWAYS_ONE), chain(2, ALWAYS_TWO)]
    ratio = ranked(cells)[1].tokens_per_second.value / ranked(cells)[0].tokens_per_second.value
    enough = (1 - ratio) / (1 + ratio)
    assert [ranked(cells, error=enough * share)[1].is_tied for share in (0.99, 1.01)] == [False, True]


def test_one_prompt_tells_no_configurations_apart():
    cells = [chain(1, ALWAYS_ONE[:1]), chain(2, ALWAYS_TWO[:1])]
    assert [one.is_tied for one in ranked(cells)] == [False, True, True]


def test_what_cannot_run_or_was_not_measured_or_does_not_fit_is_left_out_with_the_reason():
    cells = [
        Cell("EAGLE", 2, 1, 9, reason="no such tree"),
        chain(5, ALWAYS_ONE),
        chain(4, ALWAYS_ONE),
        chain(1, ALWAYS_ONE),
    ]
    *there, first, second, third = ranked(cells, batch=9, length=100, memory={"slots": 9 * 104})
    assert [(one.cell and one.cell.steps, one.requests_that_fit) for one in there] == [(1, 9), (None, 9)]
    assert [one.reason for one in (first, second, third)] == [
        "no such tree",
        "target of 6 tokens, but 1 to 5 were measured",
        "8 requests fit, each with 10 slots after its text",
    ]


def test_nothing_is_ranked_where_nothing_fits():
    (one,) = ranked([], batch=9, memory={"slots": 100})
    assert one.reason == "0 requests fit, each with 2 slots after its text"
