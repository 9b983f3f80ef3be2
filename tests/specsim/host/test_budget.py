"""Budgets of the worked example Q.1.11, tables by hand, and what they must be."""

from itertools import accumulate

import pytest

from specsim.host.budget import (
    CapturedTimes,
    ForcedShare,
    StepRates,
    StepTimes,
    agree_on_tier,
    align_verify_budget,
    verify_graph_tier,
    verify_token_budget,
)
from specsim.rejection import Reason, SpecRejection

SURVIVALS = (0.9, 0.72, 0.36, 0.6, 0.36, 0.216, 0.95, 0.095, 0.0855)
RATES = StepRates((1, 4, 6, 8), (100, 98, 90, 60))
TIMES = StepTimes(0.01, (1, 8), (0, 0.002), (1, 4, 8, 12), (0.001, 0.002, 0.010, 0.020))
CAPTURED = CapturedTimes((1, 4), (1, 2), (4, 8, 16, 32), (5, 6, 9, 20), 16)


def test_q1_tokens_per_second_of_every_budget():
    tokens = accumulate(sorted(SURVIVALS, reverse=True), initial=3.0)
    yields = [round(RATES.yields(num, 3, 3 + count), 1) for count, num in enumerate(tokens)]
    assert yields == [300, 387.1, 475.3, 501.3, 555.3, 391.8, 413.4, 426.4, 432.1, 437.2]


@pytest.mark.parametrize(
    ("costs", "budget"),
    [(RATES, 4), (TIMES, 3), (None, 9), (StepRates((1,), (100,)), 9), (ForcedShare(0.5, 3), 4), (ForcedShare(1, 3), 9)],
)
def test_q1_budgets(costs, budget):
    assert verify_token_budget(SURVIVALS, 3, costs) == budget


def test_times_of_captured_sizes():
    assert [CAPTURED.draft_time(size) for size in range(5)] == [1, 1, 2, 2, 2]
    assert [CAPTURED.verify_time(size) for size in (5, 9, 17, 40)] == [6, 9, 20, 25.5]


def test_times_never_fall_with_sizes():
    dip = CapturedTimes((1, 2), (3, 1), (1, 2, 4, 8), (5, 2, 7, 6), 2)
    assert (dip.draft_time(2), dip.verify_time(2), dip.verify_time(8)) == (3, 5, 7)
    assert dip.verify_time(3) == dip.verify_time(4) == 7
    assert dip.verify_time(20) == 7


def test_padding_makes_a_draft_free():
    """Two roots and two drafts fill a graph of four rows; a third draft needs one of eight."""
    costs = CapturedTimes((4,), (0,), (4, 8), (10, 15), 8)
    assert verify_token_budget((0.5, 0.5, 0.5, 0.5), 2, costs) == 2
    assert verify_token_budget((0.5, 0.5, 0.5, 0.5), 2, costs, num_rows=4) == 4


def test_of_equal_yields_the_smallest_budget_is_best():
    assert verify_token_budget((1.0,), 2, StepRates((0, 3), (3, 2))) == 0


@pytest.mark.parametrize(("max_budget", "budget"), [(None, 4), (2, 2), (0, 0)])
def test_a_budget_keeps_to_the_room_of_the_forward(max_budget, budget):
    assert verify_token_budget(SURVIVALS, 3, RATES, max_budget=max_budget) == budget
    assert verify_token_budget(SURVIVALS, 3, ForcedShare(0.5, 3), max_budget=max_budget) == budget


def test_drafts_that_hardly_survive_do_not_count():
    assert verify_token_budget((1e-7, 0.5, 1e-6), 1, None) == 2
    assert verify_token_budget((1e-7, 0.5, 1e-6), 1, None, survival_eps=0) == 3
    assert verify_token_budget((), 4, RATES) == 0


def test_tiers():
    assert verify_graph_tier(3, 3, 4) == 6
    assert verify_graph_tier(3, 99, 4) == 12
    assert verify_graph_tier(3, 3, 4, 2) == 9
    assert verify_graph_tier(3, 3, 4, 0) == 6
    assert verify_graph_tier(3, None, 4) == -1
    assert verify_graph_tier(0, 0, 4) == 0
    assert [agree_on_tier(tiers) for tiers in ([6, 0, 9], [6, -1], [])] == [9, None, 0]


@pytest.mark.parametrize(
    ("budget", "captured", "least", "aligned"),
    [(3, (4, 8, 12), 1, 5), (5, (4, 8, 12), 1, 5), (6, (4, 8, 64), 1, 9), (3, (4,), 1, 3), (0, (8, 16), 2, 2)],
)
def test_an_aligned_budget_fills_its_graph(budget, captured, least, aligned):
    assert align_verify_budget(budget, 3, 4, captured, least) == aligned


@pytest.mark.parametrize(
    "make",
    [
        lambda: StepRates((1, 1), (1, 2)),
        lambda: StepRates((4, 1), (1, 2)),
        lambda: StepRates((1, 4), (1,)),
        lambda: StepRates((), ()),
        lambda: StepRates((1, 4), (1, float("nan"))),
        lambda: StepTimes(0, (1,), (0,), (1,), (0,)),
        lambda: StepTimes(0.1, (2, 1), (0, 0), (1,), (0,)),
        lambda: StepTimes(0.1, (1,), (0,), (2, 1), (0, 0)),
        lambda: CapturedTimes((2, 1), (0, 0), (1,), (0,), 8),
        lambda: CapturedTimes((1,), (0,), (2, 1), (0, 0), 8),
        lambda: ForcedShare(1.5, 3),
        lambda: ForcedShare(0.5, -1),
    ],
)
def test_a_table_that_cannot_be_looked_up_is_rejected(make):
    with pytest.raises(SpecRejection) as caught:
        make()
    assert caught.value.reason is Reason.BAD_CONFIGURATION


@pytest.mark.parametrize(
    ("arguments", "reason", "what"),
    [
        ({"survivals": (0.5, 1.5)}, Reason.PROBABILITY_OUT_OF_RANGE, "survivals[1]"),
        ({"survivals": (-0.5,)}, Reason.PROBABILITY_OUT_OF_RANGE, "survivals[0]"),
        ({"survivals": (float("nan"),)}, Reason.NAN_SCORE, "survivals[0]"),
        ({"num_requests": -1}, Reason.SCALAR_OUT_OF_RANGE, "num_requests"),
        ({"max_budget": -1}, Reason.SCALAR_OUT_OF_RANGE, "max_budget"),
    ],
)
def test_bad_input_is_rejected_by_name(arguments, reason, what):
    with pytest.raises(SpecRejection) as caught:
        verify_token_budget(**{"survivals": (0.5,), "num_requests": 2, "costs": RATES, **arguments})
    assert (caught.value.reason, caught.value.what) == (reason, what)
