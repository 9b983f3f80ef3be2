"""K.3: what V2 moves to the front, and what V1 maps and frees, after the verify of K.2."""

import numpy as np

from specsim import reference
from tests.worked_examples.numbers import ACCEPT_INDEX, PREDICT, VERIFY_SLOTS, i32, i64

SOURCE, TARGET = [20, 22, 24, 30, 31, 33, 35, 0], [20, 21, 22, 30, 31, 32, 33, 0]


def test_k3_source_and_target_slots(computes):
    computes(
        "fill_accept_out_cache_loc",
        {"accept_index": i32(ACCEPT_INDEX), "out_cache_loc": i64(VERIFY_SLOTS)},
        {"source_slots": i64(SOURCE)},
    )
    computes(
        "fill_accept_target_cache_loc",
        {"num_accepted_tokens": i32([3, 4]), "out_cache_loc": i64(VERIFY_SLOTS), "num_steps": 3},
        {"target_slots": i64(TARGET)},
    )


def test_k3_move_reads_every_source_before_it_writes_a_target(operations):
    """Slot 22 is the source of a pair and the target of the next one, 33 likewise."""
    pool = i64(range(40)).reshape(40, 1) * 10
    expected = pool.copy()
    expected[[21, 22, 32, 33], 0] = [220, 240, 330, 350]
    operations.move_kv_cache([pool], i64(TARGET), i64(SOURCE))
    np.testing.assert_array_equal(pool, expected)


def test_k3_compacted(computes):
    computes(
        "compact_accepted_to_front",
        {"values": i32(PREDICT), "accept_index": i32(ACCEPT_INDEX)},
        {"compacted": i32([12, 23, 70, 12, 70, 0, 31, 42, 63, 80, 0, 80])},
    )
    computes(
        "compact_accepted_to_front",
        {"values": i64(range(12)).reshape(12, 1), "accept_index": i32(ACCEPT_INDEX)},
        {"compacted": i64([0, 2, 4, 0, 4, 5, 6, 7, 9, 11, 10, 11]).reshape(12, 1)},
    )


def test_k3_past_the_path_the_reference_holds_what_engines_hold():
    got = reference.compact_accepted_to_front(i32(PREDICT), i32(ACCEPT_INDEX))
    assert got.tolist() == [12, 23, 70, 12, 70, 0, 31, 42, 63, 80, 0, 80]
    got = reference.compact_accepted_to_front(i64(range(12)), i32(ACCEPT_INDEX))
    assert got.tolist() == [0, 2, 4, 0, 4, 5, 6, 7, 9, 11, 10, 11]


def test_k3_select_index(computes):
    computes(
        "prepare_for_extend_to_fill_draft_kvcache",
        {"seq_lens": i64([7, 5]), "num_accepted_tokens": i32([3, 4]), "num_draft_tokens": 6},
        {
            "positions": i64([7, 8, 9, 10, 11, 12, 5, 6, 7, 8, 9, 10]),
            "forward_seq_lens": i64([13, 11]),
            "select_index": i64([2, 9]),
        },
    )


def remapped(operations, accept_index):
    rows, slots = i32(np.zeros((3, 12))), i64(VERIFY_SLOTS)
    evicted = operations.remap_accepted_slots(i64([1, 2]), rows, i64([7, 5]), slots, i32(accept_index))
    return rows.tolist(), slots[evicted].tolist()


def test_k3_v1_slots_are_mapped_and_freed(operations):
    rows, freed = remapped(operations, ACCEPT_INDEX)
    assert freed == [21, 23, 25, 32, 34]
    assert rows[1:] == [[0] * 7 + [20, 22, 24, 0, 0], [0] * 5 + [30, 31, 33, 35, 0, 0, 0]]


def test_k3_v1_slots_after_a_stop_are_freed(operations):
    """Token 42 ends request 1, whose path is cut after its first draft."""
    rows, freed = remapped(operations, [[0, 2, 4, -1], [6, 7, -1, -1]])
    assert freed == [21, 23, 25, 32, 33, 34, 35]
    assert rows[2] == [0] * 5 + [30, 31, 0, 0, 0, 0, 0]


def test_k3_v1_extend(computes):
    computes(
        "create_extend_after_decode_spec_info",
        {
            "input_ids": i64([12, 23, 70, 31, 42, 63, 80]),
            "seq_lens": i64([10, 9]),
            "num_accepted_tokens": i32([3, 4]),
        },
        {"positions": i64([7, 8, 9, 5, 6, 7, 8]), "bonus_tokens": i32([70, 80])},
    )
    rows = i32(range(36)).reshape(3, 12)
    computes(
        "generate_attn_arg_prefill",
        {
            "req_pool_indices": i64([1, 2]),
            "req_to_token": rows,
            "kv_lens": i64([10, 9]),
            "num_accepted_tokens": i32([3, 4]),
            "kv_lens_sum": 19,
        },
        {
            "qo_indptr": i32([0, 3, 7]),
            "kv_indptr": i32([0, 10, 19]),
            "kv_indices": np.concatenate([rows[1, :10], rows[2, :9]]),
        },
    )
