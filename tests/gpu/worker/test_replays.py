"""Sequences of batch sizes replay as the reference runs them, and faults are found in the replays where they show."""

import pytest

from specsim.gpu.arrays import DEVICE
from specsim.gpu.worker.stages import Stages
from tests.gpu.worker.replays import KINDS, RULED, run_sequences
from tests.gpu.worker.test_graph_faults import count_once, load_live_rows_alone

NUM_SEQUENCES, NUM_RULED = (200, 200) if DEVICE.type == "cuda" else (10, 4)


@pytest.mark.first
def test_padded_and_exact_replays_are_the_reference_over_sequences_of_batch_sizes():
    seen = run_sequences(range(NUM_SEQUENCES))
    assert seen["sequences"] == NUM_SEQUENCES
    assert seen["padded"] > seen["iterations"] / 2
    assert seen["of fewer requests than the bucket had before"] > 0


def test_replays_by_other_rules_of_acceptance_are_the_reference():
    seen = run_sequences(range(NUM_RULED), kinds=RULED)
    assert seen["sequences"] == NUM_RULED
    assert seen["padded"] >= seen["iterations"] / 2


@pytest.mark.parametrize(
    ("place", "planted", "way"),
    [("load", load_live_rows_alone, "padded"), ("_accept", count_once, "exact")],
    ids=["rows of an earlier batch", "a count of an earlier batch"],
)
def test_a_fault_is_found_where_it_shows(place, planted, way, monkeypatch):
    monkeypatch.setattr(Stages, place, planted)
    with pytest.raises(AssertionError, match=rf"sequence \d+:\s[\s\S]*{way}: "):
        run_sequences(range(161, 201, len(KINDS)))
