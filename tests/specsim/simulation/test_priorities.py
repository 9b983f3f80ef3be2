"""Priorities meet races of their depth at least as often as their bound says."""

from fractions import Fraction

import pytest

from specsim.rejection import Reason, SpecRejection
from specsim.simulation.turns.priorities import Coverage, Priorities

LENGTH = 4
NUM_EVENTS = 2 * LENGTH
RACES = {1: ("b3", "a0"), 2: ("a1", "b1", "a2"), 3: ("a1", "b1", "a2", "b2")}
"""Events in the order in which they race, by the number of pairs that have to be in order."""


def schedule(seed, depth):
    """Return the order in which the events of two threads run, a0 to a3 and b0 to b3."""
    priorities, left, order = Priorities(seed, depth, NUM_EVENTS), {"a": 0, "b": 0}, []
    while ready := [thread for thread, done in left.items() if done < LENGTH]:
        thread = priorities.pick(ready)
        order.append(f"{thread}{left[thread]}")
        left[thread] += 1
    assert priorities.coverage.num_schedules == 1
    return order


def num_met(depth, race):
    """Return how many of 2,000 schedules of a depth have the events of a race in order."""
    places = ([schedule(seed, depth).index(event) for event in race] for seed in range(2_000))
    return sum(one == sorted(one) for one in places)


@pytest.mark.parametrize("depth", RACES)
def test_races_of_a_depth_are_met_as_often_as_the_bound_says(depth):
    # NOTE: these races have just the chance of the bound; seeds are a sample, three deviations of which are allowed.
    least = 2_000 * Coverage(depth, NUM_EVENTS, 1, 2).bound
    assert num_met(depth, RACES[depth]) >= least - 3 * least**0.5


@pytest.mark.parametrize("depth", [2, 3])
def test_fewer_changes_never_meet_a_race(depth):
    assert num_met(depth - 1, RACES[depth]) == 0


def test_no_change_of_priorities_leaves_one_thread_after_the_other():
    orders = {tuple(schedule(seed, 1)) for seed in range(20)}
    a, b = (tuple(f"{thread}{place}" for place in range(LENGTH)) for thread in "ab")
    assert orders == {a + b, b + a}


def test_one_seed_draws_one_order():
    assert schedule(5, 3) == schedule(5, 3)


def test_the_bound_and_the_chance_of_all_schedules():
    coverage = Coverage(3, 24, 1_000, 3) + Coverage(3, 24, 1_304, 4)
    assert coverage == Coverage(3, 24, 2_304, 4)
    assert coverage.bound == Fraction(1, 4 * 24**2)
    assert coverage.chance == pytest.approx(1 - (1 - 1 / 2_304) ** 2_304)
    assert str(coverage) == (
        "depth 3: 2,304 schedules of 24 events and at most 4 threads; one meets a race of this depth with a chance of "
        "at least 1/2,304, all together of 63.2%"
    )


@pytest.mark.parametrize("sizes", [(0, 24), (3, 0)])
def test_a_schedule_has_events_and_a_race_an_order(sizes):
    with pytest.raises(SpecRejection) as rejected:
        Priorities(0, *sizes)
    assert rejected.value.reason is Reason.COUNT_OUT_OF_RANGE
