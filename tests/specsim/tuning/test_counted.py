"""Figures of acceptance and their intervals."""

import numpy as np
import pytest
from scipy import stats

from specsim.tuning.bootstrap import MOST_KEPT, Interval, interval_of, resampled_sums, student_quantile
from specsim.tuning.counted import RequestCounts, chain_tokens_per_verify, figures_of, rates_by_position

BY_HAND = [RequestCounts.of("a", (1.0, 2.0, 1.0)), RequestCounts.of("b", (3.0, 0.0, 1.0))]
"""Eight verifies: four accepted nothing, two one draft, two two of them."""


def drawn(agreement, num_requests, num_steps=3, num_verifies=20, seed=1):
    """Return requests whose drafts are accepted independently."""
    accepted = np.random.default_rng(seed).random((num_requests, num_verifies, num_steps)) < agreement
    counts = accepted.cumprod(axis=2).sum(axis=2)
    return [
        RequestCounts.of(str(place), tuple(np.bincount(row, minlength=num_steps + 1).astype(float).tolist()))
        for place, row in enumerate(counts)
    ]


def test_figures_by_hand():
    figures = figures_of(BY_HAND, seed=0)
    assert (figures.num_requests, figures.num_verifies) == (2, 8.0)
    assert figures.tokens_per_verify.value == 1 + 6 / 8
    assert figures.accepted_per_verify.value == 6 / 8
    assert [one.value for one in figures.by_position] == [4 / 8, 2 / 8]
    assert [one.value for one in figures.conditional] == [4 / 8, 2 / 4]


def test_a_position_that_no_verify_reached_has_no_conditional_rate():
    figures = figures_of([RequestCounts.of("a", (4.0, 0.0, 0.0)), RequestCounts.of("b", (1.0,))], seed=0)
    assert [one.value for one in figures.by_position] == [0, 0]
    assert [one.value for one in figures.conditional] == [0]


def test_one_request_has_no_interval():
    assert figures_of(BY_HAND[:1], seed=0).tokens_per_verify == Interval(2.0, None, None)


def test_a_seed_gives_the_same_interval_again():
    assert figures_of(BY_HAND, seed=3) == figures_of(BY_HAND, seed=3)
    requests = drawn(0.7, 12)
    assert figures_of(requests, seed=3) != figures_of(requests, seed=4)


def test_many_requests_are_resampled_in_parts():
    rows = np.ones((MOST_KEPT // 20, 1))
    assert resampled_sums(rows, seed=0, replicates=30).tolist() == [[float(len(rows))]] * 30


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 100])
def test_quantiles_are_those_of_student(freedom):
    assert student_quantile(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=2e-3)


def test_the_closed_form_of_a_chain():
    assert chain_tokens_per_verify(0.5, 2) == 1 + 0.5 + 0.25
    assert chain_tokens_per_verify(0.0, 4) == 1
    assert chain_tokens_per_verify(1.0, 4) == 5
    assert chain_tokens_per_verify(0.7, 3) == pytest.approx((1 - 0.7**4) / (1 - 0.7))


def test_expected_counts_of_a_chain_have_the_closed_form_exactly():
    shares = [0.3, 0.7 * 0.3, 0.7**2 * 0.3, 0.7**3]
    figures = figures_of([RequestCounts.of(name, tuple(shares)) for name in "ab"], seed=0)
    assert figures.tokens_per_verify.value == pytest.approx(chain_tokens_per_verify(0.7, 3), abs=1e-12)
    assert [one.value for one in figures.conditional] == pytest.approx([0.7] * 3, abs=1e-12)


def test_intervals_hold_the_true_figure_as_often_as_they_should():
    """Of 100 runs of 12 requests each 95 % are 95, with a standard deviation of 2.2."""
    expected, held = chain_tokens_per_verify(0.7, 3), 0
    for seed in range(100):
        interval = figures_of(drawn(0.7, 12, num_verifies=10, seed=seed), seed).tokens_per_verify
        held += interval.low <= expected <= interval.high
    assert 88 <= held <= 99


def test_rates_are_taken_along_the_last_axis():
    rates, conditional = rates_by_position(np.array([[4.0, 3.0, 2.0, 1.0, 1.0], [4.0, 8.0, 0.0, 0.0, 4.0]]))
    assert rates.tolist() == [[0.5, 0.25], [1.0, 1.0]]
    assert conditional.tolist() == [[0.5, 0.5], [1.0, 1.0]]


def test_replicates_without_a_verify_are_left_out():
    assert interval_of(1.0, np.array([np.nan, np.nan]), 5) == Interval(1.0, None, None)


def test_a_drafter_without_a_histogram_has_no_positions():
    figures = figures_of([RequestCounts("a", 4.0, 6.0), RequestCounts("b", 4.0, 2.0)], seed=0)
    assert (figures.tokens_per_verify.value, figures.num_verifies) == (2.0, 8.0)
    assert (figures.by_position, figures.conditional) == ((), ())
