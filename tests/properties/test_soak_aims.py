"""Machines of a soak aim at rare conditions, each in its stated share, and meet them."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from specsim.conformance.backend import load
from specsim.properties.soak.aims import AIMS, ROUND, Aim, aim_of
from specsim.properties.soak.drawing import draw_setup
from specsim.properties.soak.own import MOST_AIMED, aim_at, draw_machine
from specsim.properties.soak.subject import Subject
from specsim.properties.soak.tags import OWN, REQUIRED, SOMETIMES
from specsim.simulation.loops import loop_of
from tests.properties.soak_reach import least_of_runs, reach_of_run


def seeds_of(number):
    """Return sources of numbers."""
    return [Random(f"aim {place}") for place in range(number)]


@pytest.fixture(scope="module")
def reference():
    return Subject(load("specsim.reference"))


def test_a_round_has_the_machines_that_are_stated_and_one_for_each_condition_first():
    aims = [aim_of(number) for number in range(ROUND)]
    assert [aim_of(number + ROUND) for number in range(ROUND)] == aims
    assert tuple(aims[: len(AIMS)]) == AIMS
    counted = Counter(aim.condition for aim in aims if aim is not None)
    assert counted == {aim.condition: aim.num_machines for aim in AIMS}
    assert None in aims


def test_all_aims_but_one_are_at_tags():
    known = {tag.value for tag in (*REQUIRED, *OWN, *SOMETIMES)}
    assert [aim.condition for aim in AIMS if aim.condition not in known] == [
        "decode iterations of four or more requests"
    ]


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.condition)
def test_machines_that_aim_are_found_soon(reference, aim):
    for seed in seeds_of(20):
        assert aim.can_meet(draw_machine(reference, seed, draw_setup, aim))


def test_a_round_has_a_machine_of_each_worker_where_a_module_has_nothing_else(reference):
    workers = ("standalone_v2", "multi_layer_eagle_v1", "dflash_v2")
    alone = replace(reference.backend, functions={}, other_workers={name: loop_of(name) for name in workers})
    alone = Subject(replace(alone, worker=None, worker_v1=None))
    for first in (0, ROUND):
        seeds = zip(range(first, first + len(workers)), seeds_of(len(workers)), strict=True)
        drawn = [draw_machine(alone, seed, draw_setup, aim_at(alone, number)) for number, seed in seeds]
        assert {setup.worker_name for setup in drawn} == {*workers}
    assert aim_at(alone, len(workers)) is aim_of(len(workers))
    assert aim_at(reference, 0) is aim_of(0)


def test_what_no_machine_can_meet_is_aimed_at_for_so_long(reference):
    tries = []
    aim = Aim("nothing", 1, lambda setup: bool(tries.append(setup)))
    (random,) = seeds_of(1)
    setup = draw_machine(reference, random, draw_setup, aim)
    assert (len(tries), setup not in tries) == (MOST_AIMED, True)


def test_a_machine_that_can_meet_it_anyway_is_the_one_that_aims_at_nothing(reference):
    plain, aimed = seeds_of(1) + seeds_of(1)
    anything = Aim("anything", 1, lambda setup: True)
    assert draw_machine(reference, aimed, draw_setup, anything) == draw_machine(reference, plain, draw_setup)


@pytest.mark.slow
@pytest.mark.first
def test_three_thousand_steps_meet_every_required_condition_three_times():
    runs = [reach_of_run(seed, 3_000) for seed in (7, 8)]
    assert [run.because for run in runs] == [[], []]
    least, condition = least_of_runs(runs)[0]
    assert least >= 3, condition
