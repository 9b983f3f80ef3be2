import numpy as np
import pytest

from specsim import Reason, SpecRejection, reference


def window(i32, i64, ends, lengths, padding):
    """Return windows of requests in rows 1, 2, …, whose slots are ten times the row and the position."""
    starts = np.cumsum(lengths) - lengths
    firsts = np.array(ends) - lengths
    positions = np.concatenate([np.maximum(np.arange(first, end), 0) for first, end in zip(firsts, ends, strict=True)])
    rows = np.arange(len(ends)) + 1
    return {
        "input_ids": i64(np.arange(sum(lengths)) + 10),
        "positions": i64(positions),
        "out_cache_loc": i64(np.arange(sum(lengths)) + 70),
        "hidden_states": np.arange(sum(lengths), dtype=np.float32)[:, None] + 1,
        "extend_start_loc": i32(starts),
        "extend_seq_lens": i32(lengths),
        "next_tokens": i64(np.arange(len(ends)) + 90),
        "num_padding": i32(padding),
        "req_pool_indices": i64(rows),
        "req_to_token": i32(np.arange(len(ends) + 1)[:, None] * 100 + np.arange(9)),
        "forward_seq_lens": i64(ends),
        "hidden_states_pool": -np.arange(2 * len(ends) + 2, dtype=np.float32).reshape(-1, 2, 1),
        "draft_layer": 1,
    }


def test_ids_move_left_in_each_window(i32, i64):
    ids = i64([1, 2, 3, 4, 5, 6, 7])
    reference.rotate_input_ids(ids, i32([0, 3, 4]), i32([3, 0, 2]), i64([70, 80, 90]))
    assert ids.tolist() == [2, 3, 70, 4, 6, 90, 7]


def test_a_given_place_leaves_the_last_cell(i32, i64):
    ids = i64([1, 2, 3, 4, 5])
    reference.rotate_input_ids(ids, i32([0, 3]), i32([3, 2]), i64([70, 80]), i64([0, 4]))
    assert ids.tolist() == [70, 3, 3, 5, 80]


def test_ragged_windows_grow(equal, i32, i64):
    got = reference.assign_new_state(**window(i32, i64, [6, 3], [2, 3], [1, 0]))
    hidden = np.array([[-2.0], [1], [2], [0], [3], [4], [5]], dtype=np.float32)
    equal(
        got,
        (
            i64([10, 90, 0, 12, 13, 14, 91]),
            i64([3, 4, 5, 0, 0, 1, 2]),
            i64([103, 70, 71, 0, 72, 73, 74]),
            hidden,
            i32([0, 3]),
            i32([3, 4]),
        ),
    )


def test_states_are_appended(i32, i64):
    pool = i64([[[0], [0], [0]], [[1], [2], [3]], [[4], [5], [6]], [[7], [8], [9]]])
    hidden = i64([[10], [11], [12], [13], [14]])
    reference.assign_hidden_states_pool(hidden, i32([0, 4, 5]), i32([4, 1, 0]), i64([3, 1, 0]), pool)
    assert pool[:, :, 0].tolist() == [[0, 0, 0], [2, 3, 14], [4, 5, 6], [11, 12, 13]]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"extend_seq_lens": [2, 2]}, Reason.INCONSISTENT_LENGTHS),
        ({"extend_start_loc": [0, 1]}, Reason.INCONSISTENT_LENGTHS),
        ({"num_padding": [3, 0]}, Reason.INCONSISTENT_LENGTHS),
        ({"extend_seq_lens": [0, 5]}, Reason.COUNT_OUT_OF_RANGE),
    ],
)
def test_windows_that_do_not_fit_are_rejected(i32, i64, changed, reason):
    arguments = window(i32, i64, [6, 3], [2, 3], [1, 0])
    with pytest.raises(SpecRejection) as caught:
        reference.assign_new_state(**arguments | {name: i32(value) for name, value in changed.items()})
    assert caught.value.reason is reason


def test_a_hidden_state_that_is_not_kept_is_rejected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.assign_new_state(**window(i32, i64, [6, 3], [2, 3], [1, 0]) | {"draft_layer": 2})
    assert caught.value.reason is Reason.SCALAR_OUT_OF_RANGE


def test_a_token_of_another_request_is_not_selected(i32, i64):
    with pytest.raises(SpecRejection) as caught:
        reference.rotate_input_ids(i64([1, 2, 3]), i32([0, 2]), i32([2, 1]), i64([7, 8]), i64([2, 2]))
    assert caught.value.reason is Reason.INCONSISTENT_LENGTHS


def test_a_row_of_two_requests_is_rejected(i32, i64):
    pool, hidden = i64([[[0]], [[1]]]), i64([[3], [4]])
    with pytest.raises(SpecRejection) as caught:
        reference.assign_hidden_states_pool(hidden, i32([0, 1]), i32([1, 1]), i64([1, 1]), pool)
    assert caught.value.reason is Reason.DUPLICATE_ROW
