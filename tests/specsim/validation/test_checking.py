import numpy as np
import pytest

from specsim.contracts.binding import defined_mask
from specsim.operations import RECORDS
from specsim.rejection import Reason, SpecRejection
from specsim.validation.checking import check_call


def verify_arguments(**changes):
    links = np.full((2, 3), -1, dtype=np.int64)
    arguments = {
        "candidates": np.zeros((2, 3), dtype=np.int64),
        "retrieve_index": np.arange(6, dtype=np.int64).reshape(2, 3),
        "retrieve_next_token": links,
        "retrieve_next_sibling": links,
        "target_predict": np.zeros((2, 3), dtype=np.int64),
        "num_steps": 2,
    }
    return {**arguments, **changes}


def test_axes_are_bound_from_shapes_and_scalars():
    axes = check_call("verify_tree_greedy", verify_arguments())
    assert axes == {"num_steps": 2, "draft": 2, "request": 2, "node": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"target_predict": np.zeros((2, 4), dtype=np.int64)},
            "WRONG_SHAPE: target_predict.shape[1] is 4, but should be 3 ('node'), "
            "because the contract of verify_tree_greedy says so",
        ),
        (
            {"candidates": np.zeros((2, 3), dtype=np.int32)},
            "WRONG_DTYPE: candidates.dtype is int32, but should be int64, "
            "because the contract of verify_tree_greedy says so",
        ),
        (
            {"num_steps": None},
            "MISSING_ARGUMENT: num_steps is None, but should be an integer, because it is a size",
        ),
        (
            {"candidates": None},
            "MISSING_ARGUMENT: candidates is None, but should be an array, because it is not optional",
        ),
        (
            {"num_steps": -1},
            "SCALAR_OUT_OF_RANGE: num_steps is -1, but should be 0 to 1024, "
            "because the contract of verify_tree_greedy says so",
        ),
        (
            {"retrieve_next_token": np.array([[-1, -1, -1], [1, 7, -1]])},
            "NODE_OUT_OF_RANGE: retrieve_next_token[1, 1] is 7, but should be 0 to 2 or -1, "
            "because the contract of verify_tree_greedy says so",
        ),
    ],
)
def test_messages(changes, message):
    with pytest.raises(SpecRejection) as caught:
        check_call("verify_tree_greedy", verify_arguments(**changes))
    assert str(caught.value) == message


def test_entries_are_not_read_when_values_are_off():
    arguments = verify_arguments(retrieve_next_token=np.full((2, 3), 9, dtype=np.int64))
    assert check_call("verify_tree_greedy", arguments, values=False)["node"] == 3


def test_undefined_entries_may_leave_their_bounds():
    accept_tokens = np.array([[5, -77], [6, 7]], dtype=np.int32)
    counts = np.array([1, 2], dtype=np.int32)
    assert (
        check_call("fill_bonus_tokens", {"accept_tokens": accept_tokens, "num_accepted_tokens": counts})["draft"] == 1
    )


def test_a_width_that_does_not_divide():
    arguments = {"out_cache_loc": np.zeros(7, dtype=np.int64), "topk": 2, "num_steps": 2}
    with pytest.raises(SpecRejection) as caught:
        check_call("per_step_draft_out_cache_loc", arguments)
    assert caught.value.reason is Reason.NOT_DIVISIBLE


def mask_of(operation, name, shape, arrays, bindings=()):
    spec = RECORDS[operation].contract.by_name[name]
    return defined_mask(spec, shape, arrays, dict(bindings)).astype(int).tolist()


def test_defined_entries_by_rule():
    accept_index = np.array([[0, 2], [3, -1]])
    counts = np.array([2, 1])
    assert mask_of("verify_tree_greedy", "predict", (6,), {"accept_index": accept_index}) == [1, 0, 1, 1, 0, 0]
    assert mask_of("fill_bonus_tokens", "accept_tokens", (2, 2), {"num_accepted_tokens": counts}) == [[1, 1], [1, 0]]
    assert mask_of("compact_accepted_to_front", "compacted", (6,), {"accept_index": accept_index}) == [1, 1, 0, 1, 0, 0]
    assert mask_of("target_forward", "kv_buffers", (3, 1), {}) == [[0], [1], [1]]
    kv_indptr = np.array([[0, 1, 2], [0, 2, 3]])
    masks = mask_of("generate_draft_decode_kv_indices", "kv_indices", (2, 4), {"kv_indptr": kv_indptr})
    assert masks == [[1, 1, 0, 0], [1, 1, 1, 0]]


def test_the_tail_of_an_oversized_full_mask_is_undefined():
    bindings = {"node": 2, "request": 1, "mask_mode": 0, "seq_lens_sum": 3, "not_packed": True}
    got = mask_of("build_tree", "tree_mask", (10,), {"seq_lens": np.array([1])}, bindings)
    assert got == [1] * 6 + [0] * 4
