"""Runs of the reference are kept as it leaves them, and an engine that is used otherwise leaves what it would alone."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.properties.reach.sizes import Dimension, Place
from specsim.properties.runs import believed
from specsim.properties.runs.believed import BelievedEngine, left_by, retract
from specsim.properties.runs.play import Play, drive
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.runs.workers.faults_sizes import faulty_from
from specsim.properties.runs.workers.tours import Tour, play_beside_the_reference

REFERENCE = load("specsim.reference")
MODEL = Tour(seed=5, agreement=0.7, num_layers=(2, 1)).model(0.7)
ARRIVALS = tuple(Arrival((number, 1), 9, step=number * (number + 1) // 2) for number in range(3))
SCENARIO = scenario_of(SpecConfig(1, 2, 3), MODEL, ARRIVALS, max_batch=2, shuffle_seed=5)
RUN = "outputs of 9", SCENARIO, None


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    monkeypatch.setattr(believed, "_KEPT", type(believed._KEPT)())


@pytest.fixture
def runs(monkeypatch):
    """The scenarios of which an engine ran."""
    started = []

    def started_with(scenario):
        started.append(scenario)
        return Play(scenario)

    monkeypatch.setattr(believed, "Play", started_with)
    return started


def lefts_of(engine, num_turns=None):
    """Return what each turn of a run leaves of an engine."""
    return [
        engine.left if isinstance(engine, BelievedEngine) else left_by(engine, iteration)
        for (iteration,) in islice(drive([engine], SCENARIO), num_turns)
    ]


def as_lists(value):
    """Return everything inside a value, to be compared by ``==``."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, dict):
        return {name: as_lists(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [as_lists(one) for one in value]
    return [type(value).__name__, as_lists(vars(value))] if hasattr(value, "__dict__") else value


def fresh():
    return Play(SCENARIO).engine


def test_a_run_is_taken_once_and_leaves_what_an_engine_does(runs):
    lefts = [as_lists(tuple(lefts_of(BelievedEngine(SCENARIO, SCENARIO)))) for _ in range(3)]
    assert runs == [SCENARIO]
    assert lefts == [as_lists(tuple(lefts_of(fresh())))] * 3
    assert len(lefts[0]) > 2


def test_a_run_that_was_left_goes_on_from_there(runs):
    lefts_of(BelievedEngine(SCENARIO, SCENARIO), num_turns=2)
    lefts = as_lists(tuple(lefts_of(BelievedEngine(SCENARIO, SCENARIO))))
    assert lefts == as_lists(tuple(lefts_of(fresh())))
    lefts_of(BelievedEngine(SCENARIO, SCENARIO))
    assert runs == [SCENARIO, SCENARIO]


@pytest.mark.parametrize("disturb", ["abort", "retract"])
def test_an_engine_with_which_something_else_is_done_runs_by_itself(runs, disturb):
    def disturbed(engine, how):
        lefts = []
        for (iteration,) in drive([engine], SCENARIO):
            lefts.append(engine.left if isinstance(engine, BelievedEngine) else left_by(engine, iteration))
            if len(lefts) == 1:
                how(engine)
        return as_lists(tuple(lefts))

    plain = as_lists(tuple(lefts_of(BelievedEngine(SCENARIO, SCENARIO))))
    by_itself = {"abort": lambda engine: engine.abort(0), "retract": lambda engine: retract(engine, 0)}
    got = disturbed(BelievedEngine(SCENARIO, SCENARIO), lambda engine: getattr(engine, disturb)(0))
    assert got == disturbed(fresh(), by_itself[disturb])
    assert got != plain
    assert as_lists(tuple(lefts_of(BelievedEngine(SCENARIO, SCENARIO)))) == plain
    assert runs == [SCENARIO, SCENARIO]


def test_a_mutant_changes_nothing_of_what_is_kept():
    wrong = replace(REFERENCE, worker=faulty_from(Dimension.STEPS, 1, Place.CHAIN_V2))
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"target_kv\[0\] after step"):
            play_beside_the_reference(wrong, RUN)
    lefts = as_lists(tuple(lefts_of(BelievedEngine(SCENARIO, SCENARIO))))
    assert lefts == as_lists(tuple(lefts_of(fresh())))


def test_what_is_kept_cannot_be_written():
    for left in lefts_of(BelievedEngine(SCENARIO, SCENARIO)):
        owners = [vars(one) for one in (left.iteration, *left.phases) if one is not None]
        arrays = [value for owner in owners for value in owner.values() if isinstance(value, np.ndarray)]
        arrays += [entries for pool in left.entries.values() for entries in pool]
        assert arrays
        assert not any(array.flags.writeable for array in arrays)
        assert left.num_bytes == sum(array.nbytes for array in arrays)


def test_runs_that_were_not_asked_for_are_forgotten(runs, monkeypatch):
    monkeypatch.setattr(believed, "MOST_BYTES", 1)
    for name in ("one", "other", "one"):
        lefts_of(BelievedEngine(name, SCENARIO))
        assert [*believed._KEPT] == [name]
    assert len(runs) == 3
