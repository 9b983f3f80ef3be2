"""The adaptive controller: a worked example, thresholds by hand, and what its settings must be."""

from dataclasses import replace

import pytest

from specsim.host.adaptive import (
    AdaptiveConfig,
    AdaptiveController,
    AdaptiveSlot,
    AdaptiveState,
    adapt_num_steps,
    route_batch_size,
)
from specsim.rejection import Reason, SpecRejection

WIDE = AdaptiveSlot(1, (1, 3, 7), down=-0.25)
AT_ONCE = AdaptiveConfig((WIDE,), alpha=1.0, warmup=0, interval=1)


def test_worked_example_rises_at_the_fifteenth_batch():
    controller = AdaptiveController(3)
    steps, averages = [], []
    for _ in range(20):
        controller.observe([3, 3])
        steps.append(controller.num_steps(2))
        averages.append(controller.states[1].ema)
    assert steps == [3] * 14 + [7] * 6
    assert averages == pytest.approx([3 - 0.8**n for n in range(1, 21)])
    assert round(averages[14], 3) == 2.965
    assert controller.num_draft_tokens(2) == 8


def test_worked_example_first_average():
    assert AdaptiveController(3).states[1] == AdaptiveState(num_steps=3, ema=2.0, count=0)


@pytest.mark.parametrize(
    ("drafts", "num_steps"),
    [([0, 0, 0, 1], 1), ([0, 0, 1], 3), ([2, 3], 3), ([2, 3, 3], 7), ([7], 7), ([0], 1)],
    ids=["at the threshold of 1", "above it", "at the threshold of 7", "above it too", "all", "none"],
)
def test_thresholds_of_three_steps(drafts, num_steps):
    after = adapt_num_steps(AdaptiveState(3, 2.0), drafts, WIDE, AT_ONCE)
    assert after == AdaptiveState(num_steps, sum(drafts) / len(drafts), 1)


def test_a_decision_may_go_several_steps():
    assert adapt_num_steps(AdaptiveState(7, 6.0), [0], WIDE, AT_ONCE).num_steps == 1
    assert adapt_num_steps(AdaptiveState(1, 0.0), [7], WIDE, AT_ONCE).num_steps == 7


def test_downward_steps_come_before_upward_ones():
    crossed = AdaptiveSlot(1, (1, 3), down=0.5)
    assert adapt_num_steps(AdaptiveState(3, 2.0), [1], crossed, AT_ONCE).num_steps == 3


@pytest.mark.parametrize(("ceiling", "num_steps"), [(0.0, 7), (0.5, 3), (0.25, 1), (2.0, 7)])
def test_a_ceiling_holds_for_decisions_that_do_not_rise(ceiling, num_steps):
    config = AdaptiveConfig((WIDE,), alpha=1.0, warmup=0, interval=1, ceiling=ceiling)
    assert adapt_num_steps(AdaptiveState(7, 6.0), [5, 6], WIDE, config).num_steps == num_steps
    assert adapt_num_steps(AdaptiveState(3, 6.0), [5, 6], WIDE, config).num_steps == 7


def test_no_requests_are_no_verify():
    state = AdaptiveState(3, 2.0, 4)
    assert adapt_num_steps(state, [], WIDE, AT_ONCE) is state


@pytest.mark.parametrize(
    ("batch_size", "slot"), [(1, 1), (5, 8), (7, 8), (8, 8), (9, 8), (17, 32), (33, 32), (64, 32), (65, 32)]
)
def test_batches_are_padded_and_then_routed(batch_size, slot):
    assert route_batch_size(batch_size, (1, 2, 4, 8, 16, 32, 64), (1, 8, 32)) == slot


def test_batches_below_every_range_take_the_first():
    assert route_batch_size(2, (), (4, 8)) == 4


def test_each_range_has_its_own_state():
    controller = AdaptiveController(3, graph_sizes=(1, 8, 32))
    assert [controller.num_steps(size) for size in (1, 8, 32)] == [3, 3, 1]
    for _ in range(15):
        controller.observe([0] * 5)
    assert [controller.num_steps(size) for size in (1, 5, 8, 32)] == [3, 1, 1, 1]
    controller.observe([])
    assert controller.states[1] == AdaptiveState.initial(3)


def test_a_range_starts_at_the_first_steps_or_in_the_middle_of_its_candidates():
    assert [AdaptiveSlot(1, (2, 4, 8)).start(steps) for steps in (1, 2, 5, 8, 9)] == [4, 2, 4, 8, 4]
    assert [AdaptiveSlot(1, candidates).start(9) for candidates in ((3,), (1, 3), (1, 2, 3, 4))] == [3, 3, 3]


def test_a_range_goes_down_late_unless_it_says_otherwise():
    assert AdaptiveSlot(1, (1, 3)) == AdaptiveSlot(1, (1, 3), down=-0.25, up=0.0)
    assert [(one.batch_size, one.candidates, one.down, one.up) for one in AdaptiveConfig().slots] == [
        (1, (1, 3, 7), -0.25, 0.0),
        (8, (1, 3), 0.0, 0.0),
        (32, (1,), 0.0, 0.0),
    ]


def test_a_range_may_rest_and_try_again():
    resting = AdaptiveSlot(1, (0, 1, 3), down=0.5, up=0.5)
    at_rest = adapt_num_steps(AdaptiveState(1, 0.5), [0, 0], resting, AT_ONCE)
    assert at_rest == AdaptiveState(0, 0.0, 1)
    assert adapt_num_steps(at_rest, [0, 0], resting, AT_ONCE).num_steps == 0
    assert adapt_num_steps(at_rest, [0, 0], replace(resting, up=0.0), AT_ONCE).num_steps == 1


def test_large_batches_may_have_no_other_choice_than_to_rest():
    controller = AdaptiveController(3, AdaptiveConfig((WIDE, AdaptiveSlot(64, (0,)))))
    assert [controller.num_steps(size) for size in (1, 63, 64, 65)] == [3, 3, 0, 0]
    assert controller.num_draft_tokens(64) == 1
    assert controller.states[64] == AdaptiveState(num_steps=0, ema=-1.0, count=0)
    for _ in range(20):
        controller.observe([0] * 64)
    assert [controller.num_steps(size) for size in (63, 64)] == [3, 0]


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("num_steps", lambda: AdaptiveController(2)),
        ("candidates", lambda: AdaptiveSlot(1, ())),
        ("candidates", lambda: AdaptiveSlot(1, (-1, 1))),
        ("candidates", lambda: AdaptiveSlot(1, (3, 3))),
        ("slots", lambda: AdaptiveConfig(())),
        ("slots", lambda: AdaptiveConfig((AdaptiveSlot(8, (1,)), AdaptiveSlot(1, (1,))))),
        ("alpha", lambda: AdaptiveConfig(alpha=1.5)),
        ("warmup, interval", lambda: AdaptiveConfig(interval=0)),
        ("ceiling", lambda: AdaptiveConfig(ceiling=float("nan"))),
    ],
)
def test_contradictions_name_the_setting(what, make):
    with pytest.raises(SpecRejection) as caught:
        make()
    assert (caught.value.reason, caught.value.what) == (Reason.BAD_CONFIGURATION, what)
