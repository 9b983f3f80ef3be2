"""Which calls have a place in a recording, and what becomes of those that lose it."""

from pathlib import Path

from specsim.conformance.recording.held import Held, Sample
from specsim.conformance.recording.kept import Kept


def test_every_later_call_has_the_same_chance():
    drawn = [0] * 12
    for seed in range(600):
        sample, places = Sample(1, 3, str(seed)), {}
        for call in range(13):
            place = sample.place()
            if place is not None:
                places[place] = call
        assert places.pop(0) == 0
        assert sorted(places) == [1, 2, 3]
        for call in places.values():
            drawn[call - 1] += 1
    assert all(110 <= count <= 190 for count in drawn)


def test_a_place_that_is_given_back_is_the_next_ones():
    sample = Sample(1, 0, "")
    assert sample.place() == 0
    sample.give_back(0)
    assert [sample.place(), sample.place()] == [0, None]


def test_a_call_that_loses_its_place_is_let_go():
    """If it is written by then its files are outdated; if it is not, nothing holds its copies any more."""
    held, calls = Held(1, 0, 100, 100), [Kept("fast_topk", {}, 60) for _ in range(3)]
    for call in calls:
        assert held.has_room("fast_topk", 0, 60 * (call is calls[0]))
        held.put(0, call)
    assert (held.waiting(), held.outdated()) == (calls[2:], [])
    calls[2].path = Path("written")
    assert held.let_go(calls[2])
    assert not held.let_go(calls[0])
    held.put(0, calls[0])
    assert held.outdated() == [calls[2]]


def test_a_call_without_room_leaves_its_place_and_its_bytes_to_the_next():
    held = Held(1, 0, 100, 80)
    assert held.offer("fast_topk", False) == 0
    assert not held.has_room("fast_topk", 0, 81)
    assert held.offer("fast_topk", False) == 0
    assert held.has_room("fast_topk", 0, 70)
    assert not held.has_room("fast_topk", 0, 20, 70)
    assert held.offer("fast_topk", False) == 0
    assert held.has_room("fast_topk", 0, 80)
    assert vars(held.tallies["fast_topk"])["too_large"] == 2
