"""E.4: the windows of three draft layers after a verify that accepted one draft, and what waits for the next."""

import numpy as np

from tests.worked_examples.numbers import i32, i64

NUM_STEPS, NUM_NODES, LENGTH, NUM_ACCEPTED_DRAFTS = 3, 4, 9, 1
MAP = i32([np.zeros(16), np.arange(16) + 1032])
WINDOW = {
    "input_ids": i64([11, 12, 13, 14]),
    "positions": i64([9, 10, 11, 12]),
    "out_cache_loc": i64([501, 502, 503, 504]),
    "hidden_states": i64([[9], [10], [11], [12]]),
    "extend_start_loc": i32([0]),
    "extend_seq_lens": i32([NUM_NODES]),
}
POOL = i64([[[0], [0]], [[7], [8]]])
FIRST_GROWN = {
    "next_input_ids": i64([11, 12, 900, 14, 0]),
    "next_positions": i64([8, 9, 10, 11, 12]),
    "next_out_cache_loc": i64([1040, 501, 502, 503, 504]),
    "next_hidden_states": i64([[8], [9], [10], [11], [12]]),
    "next_extend_start_loc": i32([0]),
    "next_extend_seq_lens": i32([5]),
}
SECOND_GROWN = {
    "next_input_ids": i64([11, 12, 900, 901, 0, 0]),
    "next_positions": i64([7, 8, 9, 10, 11, 12]),
    "next_out_cache_loc": i64([1039, 1040, 501, 502, 503, 504]),
    "next_hidden_states": i64([[7], [8], [9], [10], [11], [12]]),
    "next_extend_start_loc": i32([0]),
    "next_extend_seq_lens": i32([6]),
}


def grown(window, token, layer):
    """Return the arguments that grow a window after a layer's proposal."""
    return {
        **{name.removeprefix("next_"): value for name, value in window.items()},
        "next_tokens": i64([token]),
        "num_padding": i32([NUM_NODES - 1 - NUM_ACCEPTED_DRAFTS]),
        "req_pool_indices": i64([1]),
        "req_to_token": MAP,
        "forward_seq_lens": i64([LENGTH + NUM_NODES]),
        "hidden_states_pool": POOL,
        "draft_layer": layer,
    }


def test_e4_first_window_grows(computes):
    computes("assign_new_state", grown(WINDOW, 900, 0), FIRST_GROWN)


def test_e4_second_window_grows(computes):
    computes("assign_new_state", grown(FIRST_GROWN, 901, 1), SECOND_GROWN)


def test_e4_rows_that_propose():
    rows = [NUM_ACCEPTED_DRAFTS + layer for layer in range(NUM_STEPS)]
    assert rows == [1, 2, 3]
    positions = [WINDOW["positions"], FIRST_GROWN["next_positions"], SECOND_GROWN["next_positions"]]
    assert [one[row] for one, row in zip(positions, rows, strict=True)] == [10, 10, 10]


def test_e4_pool_takes_what_was_committed(computes):
    computes(
        "assign_hidden_states_pool",
        {
            "hidden_states": WINDOW["hidden_states"],
            "extend_start_loc": i32([0]),
            "num_committed": i32([NUM_ACCEPTED_DRAFTS + 1]),
            "req_pool_indices": i64([1]),
            "hidden_states_pool": POOL,
        },
        {"hidden_states_pool": i64([[[0], [0]], [[9], [10]]])},
    )


def test_e4_rotation_of_a_chunk(computes):
    rotated = {"input_ids": i64([12, 13, 14, 900])}
    arguments = {name: WINDOW[name] for name in ("input_ids", "extend_start_loc", "extend_seq_lens")}
    computes("rotate_input_ids", {**arguments, "next_tokens": i64([900]), "select_index": None}, rotated)


def test_e4_rotation_at_a_given_row_keeps_the_last_cell(computes):
    rotated = {"input_ids": i64([12, 900, 14, 14])}
    arguments = {name: WINDOW[name] for name in ("input_ids", "extend_start_loc", "extend_seq_lens")}
    computes("rotate_input_ids", {**arguments, "next_tokens": i64([900]), "select_index": i64([1])}, rotated)
