import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference

I32, I64 = np.int32, np.int64
PATHS = np.array([[0, 2, 4, -1], [6, 7, 9, 11], [12, -1, -1, -1], [18, -1, -1, -1]], I32)
COUNTS, LENGTHS = np.array([3, 4, 1, 1], I32), np.array([14, 15, 15, 9], I64)


def test_steps_of_four_requests(equal, i64):
    got = reference.get_recurrent_steps(PATHS, COUNTS, LENGTHS, 6, 8)
    equal(tuple(got), (i64([4, 5, 0, 0]), i64([2, 0, 0, -1])))


def test_no_interval_keeps_no_snapshot(equal, i64):
    got = reference.get_recurrent_steps(PATHS, COUNTS, LENGTHS, 6, 0)
    equal(tuple(got), (i64([4, 5, 0, 0]), i64([-1, -1, -1, -1])))


@pytest.mark.parametrize(("length", "expected"), [(4, -1), (5, 5), (6, 4), (7, 0), (8, -1), (13, 5), (16, -1)])
def test_a_snapshot_is_after_the_node_that_completes_an_interval(length, expected):
    """With three nodes accepted: 8 is passed from 5, 6 and 7 on, and not once more from 8."""
    got = reference.get_recurrent_steps(np.array([[0, 4, 5]], I32), np.array([3], I32), np.array([length]), 6, 8)
    assert got.snapshot_step.tolist() == [expected]


@pytest.mark.parametrize(
    ("paths", "counts", "interval", "reason"),
    [
        ([[0, 2]], [1], 8, Reason.INCONSISTENT_LENGTHS),
        ([[0, -1]], [2], 8, Reason.INCONSISTENT_LENGTHS),
        ([[0, 6]], [2], 8, Reason.NODE_OUT_OF_RANGE),
        ([[1, 2]], [2], 8, Reason.MALFORMED_PATH),
        ([[0, 2]], [2], 5, Reason.SCALAR_OUT_OF_RANGE),
    ],
)
def test_bad_paths_and_intervals_are_refused(paths, counts, interval, reason):
    with pytest.raises(SpecRejection) as caught:
        reference.get_recurrent_steps(np.array(paths, I32), np.array(counts, I32), np.array([3]), 6, interval)
    assert caught.value.reason is reason


def commit(states, steps, *slots_and_steps):
    reference.commit_recurrent_states(states, steps, *(np.array(one, I64) for one in slots_and_steps))


def test_states_and_snapshots_of_every_component(equal):
    memory, window = np.arange(6.0), np.arange(12, dtype=np.int8).reshape(6, 2)
    steps = [10.0 * np.arange(2)[:, None] + np.arange(3), np.zeros((2, 3, 2), np.int8) - np.arange(3)[:, None]]
    commit([memory, window], [steps[0], steps[1].astype(np.int8)], [5, 2], [2, 1], [1, 3], [0, -1])
    equal(memory, np.array([0.0, 0.0, 11.0, 3.0, 4.0, 2.0]))
    equal(window, np.array([[0, 1], [0, 0], [-1, -1], [6, 7], [8, 9], [-2, -2]], np.int8))


def test_what_has_no_place_or_no_step_is_skipped(equal):
    states = np.arange(4.0)
    commit([states], [np.full((2, 1), 9.0)], [-1, 2], [0, -1], [3, -1], [0, 0])
    equal(states, np.array([0.0, 1.0, 2.0, 9.0]))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([1, 1], [0, 0], [2, 3], [-1, -1]), Reason.DUPLICATE_SLOT),
        (([1, 2], [0, 0], [2, 3], [0, -1]), Reason.DUPLICATE_SLOT),
        (([4, 1], [0, 0], [2, 3], [-1, -1]), Reason.SLOT_OUT_OF_RANGE),
        (([1, 2], [1, 0], [2, 3], [-1, -1]), Reason.NODE_OUT_OF_RANGE),
    ],
)
def test_states_with_two_owners_or_none_are_refused(arguments, reason):
    states = np.arange(4.0)
    with pytest.raises(SpecRejection) as caught:
        commit([states], [np.full((2, 1), 9.0)], *arguments)
    assert caught.value.reason is reason
    assert states.tolist() == [0, 1, 2, 3]


def test_the_dump_takes_any_number_of_states():
    states = np.arange(4.0)
    commit([states], [np.full((2, 1), 9.0)], [0, 0], [0, 0], [0, 0], [0, 0])
    assert states[1:].tolist() == [1, 2, 3]
