"""Races that few orders of events show are found by a soak, and two runs of a seed do the same."""

from dataclasses import replace
from itertools import count
from random import Random

import msgspec

from specsim.conformance.backend import load
from specsim.properties.soak.drawing import draw_ranked, draw_setup
from specsim.properties.soak.history import play
from specsim.properties.soak.subject import Subject
from specsim.properties.soak.trace import Traces
from specsim.properties.soak.units import ANY, SoakLimits, run_unit
from specsim.reference.worker.v2 import ReferenceWorker

MOST_STEPS = 500
LATE, IN_TIME = True, False
RACE = (LATE, IN_TIME, LATE)
"""How the map is written for three launches in a row: before the iteration of the launch before has run, or after."""


class RacingWorker(ReferenceWorker):
    """Outputs a wrong token after three writes of the map, of which the second alone let the last iteration run."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._is_read = self._is_written = False
        self._is_overtaken = False
        self._orders = ()

    def assign_slots(self, ranges):
        super().assign_slots(ranges)
        self._is_written = True
        self._is_overtaken |= self._is_read

    def read_map(self):
        self._orders = (*self._orders, None)[-3:] if self._is_written else ()
        self._is_written, self._is_read = False, True
        return super().read_map()

    def decode_from(self, read, rows, num_steps=None):
        iteration = super().decode_from(read, rows, num_steps)
        if self._orders:
            self._orders = (*self._orders[:-1], self._is_overtaken)
        self._is_read = self._is_overtaken = False
        if self._orders == RACE and len(rows):
            iteration.tokens[:, 0] ^= 1
        return iteration


def find(draw):
    """Return what the first machine says that fails, and the steps that all of them took."""
    subject = Subject(replace(load("specsim.reference"), worker=RacingWorker))
    num_steps = 0
    for number in count():
        played = play(subject, Random(f"0 {number}"), draw)
        num_steps += played.num_steps
        if played.failure is not None or num_steps > MOST_STEPS:
            return played.failure, num_steps


def in_turn(random):
    setup = draw_setup(random)
    return setup.having(is_overlapped=False)


def test_a_race_of_three_pairs_of_events_is_found():
    failure, num_steps = find(draw_setup)
    assert failure is not None, num_steps


def test_a_race_does_not_show_in_turn():
    failure, num_steps = find(in_turn)
    assert failure is None, failure
    assert num_steps > MOST_STEPS


UNSTEADY = """
from itertools import count

from specsim.host.scheduling import chunk_length as length_within

calls = count()


def chunk_length(num_left, budget, page_size):
    most = page_size * (1 + next(calls) % 7)
    return length_within(num_left, most if budget is None else min(most, budget), page_size)
"""


def test_an_implementation_that_does_something_else_the_second_time_is_named(tmp_path, monkeypatch):
    (tmp_path / "unsteady_chunks.py").write_text(UNSTEADY)
    monkeypatch.syspath_prepend(tmp_path)
    played = run_unit("unsteady_chunks", ANY, ("0 20",), SoakLimits(is_repeated=True))
    assert played["failure"] is None
    repeated = msgspec.convert(played["repeated"], Traces)
    first, again = repeated.implementation
    line = f"machine 20, run twice: trace hash of the implementation = {again}, but should be {first}"
    assert repeated.complaints() == [line]
    assert str(repeated).startswith(f"machine 20, run twice: trace hash {first} then {again}, of the reference ")


def test_the_suite_is_blamed_for_what_the_reference_does():
    assert Traces(3, ("a", "b"), ("c", "d")).complaints() == [
        "machine 3, run twice: trace hash of the implementation = b, but should be a",
        "machine 3, run twice: trace hash of the reference = d, but should be c",
    ]


def test_machines_of_one_seed_have_one_trace():
    subject = Subject(load("specsim.reference"))
    traces = [play(subject, Random("0 7")).trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert traces[0] != play(subject, Random("0 8")).trace


def test_ranks_have_one_trace():
    subject = Subject(load("specsim.reference"))
    traces = {play(subject, Random(5), lambda random: replace(draw_ranked(random), num_actions=30)).trace for _ in "12"}
    assert len(traces) == 1
