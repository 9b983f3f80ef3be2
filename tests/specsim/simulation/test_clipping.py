"""Drafts that stop at the end of a context: what is counted, what is refused, and what only whole runs show."""

from dataclasses import replace

import pytest

from specsim.config import SpecConfig
from specsim.conformance.backend import load
from specsim.conformance.direct import Direct
from specsim.host.streams import StreamEvent
from specsim.properties.runs.play import Play
from specsim.properties.runs.scenario import Arrival, scenario_of
from specsim.properties.suite.catalogue import property_named
from specsim.properties.suite.conformance.running import run_property
from specsim.rejection import Reason, SpecRejection
from specsim.simulation import engine
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.requests import Request
from specsim.simulation.turns.launches import Launched, clipped_steps
from specsim.simulation.turns.streams import Ticket

CONFIG = SpecConfig(1, 4, 5)
DECIDE = Direct(load("specsim.simulation.own"))


def request(num_tokens: int, limit: int | None = 12) -> Request:
    return Request(0, tuple(range(num_tokens)), 50, context_limit=limit)


def out(one: Request, num_steps: int | None) -> Launched:
    ticket = Ticket(StreamEvent(0), lambda: None, [])
    return Launched((one,), (0,), ticket, num_steps=num_steps)


@pytest.mark.parametrize(
    ("num_tokens", "expected"), [(6, None), (7, None), (8, 3), (9, 2), (10, 1), (11, 0), (12, 0), (13, 0)]
)
def test_the_nearest_end_decides(num_tokens, expected):
    running = [request(3), request(num_tokens), request(30, None)]
    assert clipped_steps(running, (), CONFIG, None, DECIDE) == expected


@pytest.mark.parametrize(("wanted", "expected"), [(0, 0), (1, 1), (2, 2), (4, 3)])
def test_fewer_steps_may_be_wanted(wanted, expected):
    assert clipped_steps([request(8)], (), CONFIG, wanted, DECIDE) == expected


def test_everything_that_is_out_may_be_accepted():
    one, other = request(5), request(3)
    for launched, expected in (
        ([], None),
        ([out(one, 1)], None),
        ([out(one, 2)], 3),
        ([out(one, None)], 1),
        ([out(other, None)], None),
        ([out(one, None), out(one, None)], 0),
        ([out(one, 1), replace(out(one, None), chunks=())], 3),
    ):
        assert clipped_steps([one], launched, CONFIG, None, DECIDE) == expected


def test_results_that_are_out_count_in_whole_runs(monkeypatch):
    monkeypatch.setattr(engine, "clipped_steps", lambda running, _, *rest: clipped_steps(running, (), *rest))
    one = property_named("clipped_engine.nothing_is_written_behind_the_context")
    found, failure = run_property(one, load("specsim.reference"), 1, 20, is_shrunk=False)
    assert found.failed
    assert failure is not None
    assert "last position in" in failure.message


def test_trees_are_not_clipped():
    scenario = scenario_of(SpecConfig(2, 2, 4), HashModel(8, 1, 0.5), [Arrival((1, 2), 5)], 1, 0, clips_drafts=True)
    with pytest.raises(SpecRejection) as caught:
        Play(scenario, load("specsim.reference"))
    assert caught.value.reason is Reason.BAD_CONFIGURATION
    assert "clips_drafts" in str(caught.value)
