import numpy as np
import pytest

from specsim.rejection import Reason

FORMS = (("float32", (8,)), ("float64", (3,)), ("int8", (5,)), ("float16", ()), ("int64", (2, 3)), ("float32", (0,)))


def packed(lengths):
    counts = np.array(lengths, dtype=np.int32)
    return {"extend_start_loc": (np.cumsum(counts) - counts).astype(np.int32), "extend_seq_lens": counts}


def windows(lengths, ends, form=("int64", (2,)), num_kept=3, draft_layer=1):
    """Return the arguments that grow windows which end at the given positions."""
    source, total = np.random.default_rng(len(lengths)), sum(lengths)
    dtype, trailing = form
    return {
        "input_ids": np.arange(total) + 10,
        "positions": source.integers(0, 50, total),
        "out_cache_loc": np.arange(total) + 500,
        "hidden_states": source.integers(0, 120, (total, *trailing)).astype(dtype),
        **packed(lengths),
        "next_tokens": np.arange(len(lengths)) + 9000,
        "num_padding": np.array([place % (length + 1) for place, length in enumerate(lengths)], dtype=np.int32),
        "req_pool_indices": source.permutation(len(lengths)) + 1,
        "req_to_token": np.arange((len(lengths) + 1) * 60, dtype=np.int32).reshape(-1, 60),
        "forward_seq_lens": np.array(ends, dtype=np.int64),
        "hidden_states_pool": source.integers(0, 120, (len(lengths) + 1, num_kept, *trailing)).astype(dtype),
        "draft_layer": draft_layer,
    }


@pytest.mark.parametrize("wants_report", [False, True])
@pytest.mark.parametrize("lengths", [[3, 0, 2], [1], [], [5000, 3]], ids=["ragged", "single", "no-request", "long"])
def test_ids_are_rotated_in_place(agrees, lengths, wants_report):
    sizes = packed(lengths)
    agrees(
        "rotate_input_ids",
        input_ids=np.arange(sum(lengths) + 2) + 10,
        **sizes,
        next_tokens=np.arange(len(lengths)) + 9000,
        select_index=(sizes["extend_start_loc"] + sizes["extend_seq_lens"] // 2).astype(np.int64)
        if wants_report
        else None,
    )


def test_strided_ids_are_rotated(agrees):
    ids = np.arange(30)[3:15:2]
    agrees("rotate_input_ids", input_ids=ids, **packed([4, 2]), next_tokens=np.arange(7, 11)[::3], select_index=None)


@pytest.mark.parametrize("form", FORMS)
def test_windows_of_any_element_type_grow(agrees, form):
    agrees("assign_new_state", **windows([4, 1, 3], [9, 1, 2], form))


@pytest.mark.parametrize("lengths", [[9] * 5, [40, 2], [16]])
def test_windows_longer_than_a_block_of_eight_grow(agrees, lengths):
    agrees("assign_new_state", **windows(lengths, [50] * len(lengths), num_kept=5, draft_layer=4))


def test_windows_are_cut_into_small_blocks(agrees, cut):
    cut(block=lambda size, most, interpreted: 2)
    agrees("assign_new_state", **windows([5, 2], [7, 2], ("float32", (5,))))
    agrees("rotate_input_ids", input_ids=np.arange(7), **packed([5, 2]), next_tokens=np.arange(2), select_index=None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_kept", [0, 1, 4])
def test_states_are_appended(agrees, form, num_kept):
    source, (dtype, trailing) = np.random.default_rng(5), form
    agrees(
        "assign_hidden_states_pool",
        hidden_states=source.integers(0, 120, (9, *trailing)).astype(dtype),
        extend_start_loc=np.array([0, 5, 6], dtype=np.int32),
        num_committed=np.array([5, 1, 2], dtype=np.int32),
        req_pool_indices=np.array([3, 1, 0]),
        hidden_states_pool=source.integers(0, 120, (5, num_kept, *trailing)).astype(dtype),
    )


def test_a_strided_pool_is_appended_to(agrees):
    pool = np.arange(96).reshape(4, 3, 8)[:, :, ::2]
    agrees(
        "assign_hidden_states_pool",
        hidden_states=np.arange(16).reshape(4, 4) + 500,
        extend_start_loc=np.array([0, 2], dtype=np.int32),
        num_committed=np.array([2, 1], dtype=np.int32),
        req_pool_indices=np.array([2, 1]),
        hidden_states_pool=pool,
    )


def test_bad_windows_are_rejected(rejection):
    arguments = windows([4, 1], [9, 1])
    padding = np.array([0, 2], dtype=np.int32)
    assert rejection("assign_new_state", **arguments | {"num_padding": padding}) is Reason.INCONSISTENT_LENGTHS
    overlapping = {"extend_start_loc": np.zeros(2, dtype=np.int32)}
    assert rejection("assign_new_state", **arguments | overlapping) is Reason.INCONSISTENT_LENGTHS
