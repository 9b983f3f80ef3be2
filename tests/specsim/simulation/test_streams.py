import pytest

from specsim.host.streams import StreamEvent
from specsim.simulation.engine import OWN_DECISIONS
from specsim.simulation.turns.streams import Streams

READ, RUN = {"reads_map": True}, {"writes_slots": True}


def orders(seed):
    """Queue two launches with a write of the map between them; return the order in which they ran."""
    streams, ran = Streams(OWN_DECISIONS, seed), []
    for launch in range(2):
        for name, does in (("write", {"writes_map": True}), ("read", READ), ("run", RUN)):
            event = StreamEvent(launch, **does)
            ticket = streams.enqueue(event, lambda name=f"{name} {launch}": ran.append(name))
    streams.wait(ticket)
    assert streams.num_queued == 0
    return ran


IN_ORDER = ["write 0", "read 0", "run 0", "write 1", "read 1", "run 1"]
BESIDE = ["write 0", "read 0", "write 1", "run 0", "read 1", "run 1"]


def test_seeds_draw_every_legal_order_and_no_other():
    assert {tuple(orders(seed)) for seed in range(40)} == {tuple(IN_ORDER), tuple(BESIDE)}


def test_without_a_seed_everything_runs_when_it_is_queued():
    assert orders(None) == IN_ORDER


def test_waiting_returns_what_the_work_returned():
    streams = Streams(OWN_DECISIONS, 1)
    ticket = streams.enqueue(StreamEvent(0, writes_slots=True), lambda: 7)
    assert (streams.wait(ticket), streams.wait(ticket)) == (7, 7)


def test_work_that_waits_for_nothing_queued_is_a_fault():
    class InCircles:
        def stream_edges(self, event, earlier):
            return (0,) if earlier else ()

    streams = Streams(InCircles(), 3)
    first = streams.enqueue(StreamEvent(0, writes_slots=True), lambda: None)
    if not first.is_done:
        first.waits_for.append(first)
        with pytest.raises(AssertionError, match="queued work that can run"):
            streams.wait(first)
