"""A fault that begins just above a power of two shows at that size in a tour, and not below."""

from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.properties.reach.counting import counting_reach
from specsim.properties.reach.ends import End, Reuse
from specsim.properties.reach.sizes import Dimension, Place, SizeClass
from specsim.properties.runs.workers import faults_sizes as sizes
from specsim.properties.runs.workers.faults_sizes import BOUNDS, faulty_from, keeping_after
from specsim.properties.runs.workers.laws_sizes import PROPERTIES
from specsim.properties.runs.workers.tours import (
    ENDS,
    LAST,
    Tour,
    ending_runs,
    place_of_run,
    play_beside_the_reference,
    play_ends,
    runs_of_batches,
    runs_of_outputs,
    runs_of_prompts,
    runs_of_steps,
    runs_of_topk,
)

REFERENCE = load("specsim.reference")
TOUR = Tour(seed=3, agreement=0.7, num_layers=(2, 1))
RUNS_OF = {
    Dimension.PROMPT: runs_of_prompts,
    Dimension.OUTPUT: runs_of_outputs,
    Dimension.STEPS: runs_of_steps,
    Dimension.TOPK: runs_of_topk,
    **dict.fromkeys((Dimension.GROWN, Dimension.SHRUNK, Dimension.FULL, Dimension.PADDED), runs_of_batches),
}
EXISTING = [
    (dimension, bound, place)
    for dimension in Dimension
    for bound in BOUNDS
    for place in Place
    if place.is_tree or dimension is not Dimension.TOPK
]
PLANTED = [one for one in EXISTING if one[2] is sizes.planted_place(*one[:2])]


def holds(play, backend, run):
    try:
        play(backend, run)
    except AssertionError:
        return False
    return True


def run_of(dimension, size, power, place):
    """Return a run of a tour in a place that comes to a size and to no larger one."""
    for run in RUNS_OF[dimension](TOUR, power):
        scenario = run[1]
        largest = {
            Dimension.PROMPT: max(len(arrival.prompt) for arrival in scenario.arrivals),
            Dimension.OUTPUT: max(arrival.max_new_tokens for arrival in scenario.arrivals),
            Dimension.STEPS: scenario.config.num_steps,
            Dimension.TOPK: scenario.config.topk,
            Dimension.SHRUNK: scenario.room.max_batch - 1,
        }.get(dimension, scenario.room.max_batch)
        form = scenario.config.topk > 1 or dimension is Dimension.TOPK
        if largest == size and (form, scenario.is_v1) == (place.is_tree, place.is_v1):
            return run
    raise AssertionError(f"no run comes to {dimension} {size}, {place}")


def check_begins_at(dimension, bound, place):
    """A fault from a bound on in one place shows in the run that comes to the bound, and in none that stays below."""
    power = bound - 1
    fault = {"worker_v1" if place.is_v1 else "worker": faulty_from(dimension, bound, place)}
    faulty = replace(REFERENCE, **fault)
    is_length = dimension in (Dimension.PROMPT, Dimension.OUTPUT)
    smaller = power // 2 if is_length else power
    below = smaller + 1 if is_length else power
    with counting_reach() as counts:
        assert holds(play_beside_the_reference, faulty, run_of(dimension, below, smaller, place))
    assert counts[str(SizeClass(dimension, below, place))]
    assert not holds(play_beside_the_reference, faulty, run_of(dimension, bound, power, place))


@pytest.mark.parametrize(("dimension", "bound", "place"), PLANTED, ids=str)
def test_a_fault_from_a_size_on_shows_at_it_and_not_below(dimension, bound, place):
    check_begins_at(dimension, bound, place)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [*Dimension], ids=lambda one: one.name)
def test_such_a_fault_shows_in_every_other_place(dimension):
    """At one bound: neither a fault nor a tour looks at a place and a size together.

    Every bound is tried in some place by the test above, and a tour reaches each size in each place by the last one.
    """
    others = [(one, bound, place) for one, bound, place in EXISTING if one is dimension and bound == BOUNDS[2]]
    for one in others:
        if one not in PLANTED:
            check_begins_at(*one)


def test_each_bound_of_each_dimension_has_a_mutant_and_each_place_has_some_of_both():
    assert len(PLANTED) == len(Dimension) * len(BOUNDS)
    assert len(sizes.MUTANTS) == len(PLANTED) + len(End)
    for bound in BOUNDS:
        assert {place for _, one, place in PLANTED if one == bound} == set(Place)
    for dimension in Dimension:
        there = {place for one, _, place in EXISTING if one is dimension}
        assert {place for one, _, place in PLANTED if one is dimension} == there


def test_a_fault_of_a_place_shows_in_no_other():
    faulty = replace(REFERENCE, worker=faulty_from(Dimension.STEPS, 1, Place.TREE_V2))
    shown = [
        place for place in Place if not holds(play_beside_the_reference, faulty, run_of(Dimension.STEPS, 1, 1, place))
    ]
    assert shown == [Place.TREE_V2]


@pytest.mark.parametrize("end", [*End], ids=lambda one: one.name)
def test_a_row_that_keeps_something_after_one_end_shows_after_it_alone(end):
    place = sizes.place_after(end)
    faulty = replace(REFERENCE, scheduler=keeping_after(end, place))
    # NOTE: a request that was retracted comes back after the last ones, into the row of one that ended by length.
    left_out = {end, End.RETRACTION} if end is End.LENGTH else {end}
    others = (*(one for one in End if one not in left_out), *LAST)
    for which, is_found in ((others, False), (ENDS, True)):
        (run,) = (one for one in ending_runs(TOUR, which) if place_of_run(one[0]) is place)
        with counting_reach() as counts:
            assert holds(play_ends, faulty, run) is not is_found
        assert bool(counts[str(Reuse(end, place))]) is is_found


@pytest.mark.slow
@pytest.mark.parametrize("end", [*End], ids=lambda one: one.name)
def test_such_a_row_shows_in_every_other_place(end):
    for run in ending_runs(TOUR):
        place = place_of_run(run[0])
        if place is not sizes.place_after(end):
            assert not holds(play_ends, replace(REFERENCE, scheduler=keeping_after(end, place)), run)


@pytest.mark.slow
def test_a_row_of_a_place_shows_in_no_other():
    """Of one end: elsewhere the fault of any calls what is correct."""
    for place in Place:
        faulty = replace(REFERENCE, scheduler=keeping_after(End.STOP_TOKEN, place))
        assert [place_of_run(run[0]) for run in ending_runs(TOUR) if not holds(play_ends, faulty, run)] == [place]


def test_a_failure_names_the_run():
    faulty = replace(REFERENCE, worker=faulty_from(Dimension.STEPS, 3, Place.CHAIN_V2))
    with pytest.raises(AssertionError, match=r"^3 steps, chain on V2: target_kv\[0\] after step "):
        play_beside_the_reference(faulty, run_of(Dimension.STEPS, 3, 2, Place.CHAIN_V2))


@pytest.mark.slow
@pytest.mark.first
def test_the_tours_come_to_every_class():
    with counting_reach() as counts:
        for one in PROPERTIES:
            one.law(REFERENCE, TOUR)
    missed = [tag for one in PROPERTIES for tag in one.must_reach(REFERENCE) if not counts[tag]]
    assert not missed
