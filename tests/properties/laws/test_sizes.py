"""A fault that begins just above a power of two shows at that size in a tour, and not below."""

from dataclasses import replace

import pytest

from specsim.conformance.backend import load
from specsim.properties.laws.sizes import PROPERTIES
from specsim.properties.laws.support.tours import (
    Tour,
    play_beside_the_reference,
    runs_of_batches,
    runs_of_outputs,
    runs_of_prompts,
    runs_of_steps,
    runs_of_topk,
)
from specsim.properties.mutants.sizes import faulty_from
from specsim.properties.reach.counting import counting_reach
from specsim.properties.reach.sizes import Dimension, Place, SizeClass
from specsim.reference.worker.v1 import ReferenceWorkerV1
from specsim.reference.worker.v2 import ReferenceWorker

REFERENCE = load("specsim.reference")
TOUR = Tour(seed=3, agreement=0.7, num_layers=(2, 1))
RUNS_OF = {
    Dimension.PROMPT: runs_of_prompts,
    Dimension.OUTPUT: runs_of_outputs,
    Dimension.STEPS: runs_of_steps,
    Dimension.TOPK: runs_of_topk,
    **dict.fromkeys((Dimension.GROWN, Dimension.SHRUNK, Dimension.FULL, Dimension.PADDED), runs_of_batches),
}


def planted(dimension, size):
    worker, worker_v1 = (faulty_from(dimension, size, loop) for loop in (ReferenceWorker, ReferenceWorkerV1))
    return replace(REFERENCE, worker=worker, worker_v1=worker_v1)


def holds(backend, run):
    try:
        play_beside_the_reference(backend, run)
    except AssertionError:
        return False
    return True


def run_of(dimension, size, power):
    """Return a V2 run of a tour that comes to a size and to no larger one."""
    for run in RUNS_OF[dimension](TOUR, power):
        scenario = run.scenario
        largest = {
            Dimension.PROMPT: max(len(arrival.prompt) for arrival in scenario.arrivals),
            Dimension.OUTPUT: max(arrival.max_new_tokens for arrival in scenario.arrivals),
            Dimension.STEPS: scenario.config.num_steps,
            Dimension.TOPK: scenario.config.topk,
            Dimension.SHRUNK: scenario.max_batch - 1,
        }.get(dimension, scenario.max_batch)
        if largest == size and not scenario.is_v1:
            return run
    raise AssertionError(f"no run comes to {dimension} {size}")


@pytest.mark.parametrize("power", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("dimension", [*Dimension], ids=lambda one: one.name)
def test_a_fault_from_a_size_on_shows_at_it_and_not_below(dimension, power):
    faulty = planted(dimension, power + 1)
    is_length = dimension in (Dimension.PROMPT, Dimension.OUTPUT)
    smaller = power // 2 if is_length else power
    below = smaller + 1 if is_length else power
    with counting_reach() as counts:
        assert holds(faulty, run_of(dimension, below, smaller))
    assert counts[str(SizeClass(dimension, below, Place.V2))]
    assert not holds(faulty, run_of(dimension, power + 1, power))


def test_a_failure_names_the_run():
    faulty = planted(Dimension.STEPS, 3)
    runs = [run for run in runs_of_steps(TOUR, 2) if run.scenario.config.num_steps == 3]
    with pytest.raises(AssertionError, match=r"^3 steps, (chains, V2|trees, V1): target_kv\[0\] after step "):
        for run in runs:
            play_beside_the_reference(faulty, run)


@pytest.mark.slow
def test_the_tours_come_to_every_class():
    with counting_reach() as counts:
        for one in PROPERTIES:
            one.law(REFERENCE, TOUR)
    missed = [tag for one in PROPERTIES for tag in one.must_reach(REFERENCE) if not counts[tag]]
    assert not missed
