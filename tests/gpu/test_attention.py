import numpy as np
import pytest

from specsim.conformance.backend import load
from specsim.gpu.arrays import DEVICE
from specsim.rejection import Reason

ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")
LENGTHS = pytest.mark.parametrize("lengths", [[], [0], [9, 0, 3]], ids=["none", "length-0", "three"])
DTYPES = pytest.mark.parametrize("dtype", [np.int32, np.int64])
NODES = pytest.mark.parametrize("num_nodes", [1, 2, 6, 33])


def rows(lengths, num_nodes, dtype=np.int64, slack=5):
    """Return request rows of permuted slots, each wide enough for the longest window."""
    num_rows, width = len(lengths) + 2, max(lengths, default=0) + num_nodes + slack
    slots = np.random.default_rng(width).permutation(num_rows * width).reshape(num_rows, width)
    return {
        "req_pool_indices": np.arange(2, num_rows)[::-1],
        "req_to_token": slots.astype(np.int32)[:, ::-1],
        "seq_lens": np.array(lengths, dtype=dtype),
        "num_draft_tokens": num_nodes,
    }


def masks(lengths, num_nodes, extra=0):
    size = num_nodes * sum(lengths) + num_nodes**2 * len(lengths)
    return np.random.default_rng(size).random(size + extra) < 0.5


@LENGTHS
@DTYPES
@NODES
def test_cascade(agrees, lengths, dtype, num_nodes):
    for extra in (0, 4):
        agrees(
            "verify_cascade_metadata",
            **rows(lengths, num_nodes, dtype),
            tree_mask=masks(lengths, num_nodes, extra),
            max_prefix_len=max(lengths, default=0) + extra,
        )


@pytest.mark.parametrize("page_size", [2, 4, 64])
def test_cascade_on_pages(agrees, page_size):
    lengths = [9, 0, 3]
    table = {"tree_mask": masks(lengths, 6), "max_prefix_len": 11, "page_size": page_size}
    agrees("verify_cascade_metadata", **rows(lengths, 6), **table)


def test_cascade_of_several_programs(agrees, cut):
    cut(block=lambda size, most, interpreted: 2)
    lengths = [5, 2]
    agrees("verify_cascade_metadata", **rows(lengths, 5), tree_mask=masks(lengths, 5), max_prefix_len=7)


def test_seen_nodes_come_first():
    arguments = rows([2], 3)
    seen = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=np.bool_)
    tree_mask = np.concatenate([np.ones((3, 2), np.bool_), seen], axis=1).reshape(-1)
    slots = arguments["req_to_token"][2, 2:5]
    outputs = load("specsim.gpu").call("verify_cascade_metadata", **arguments, tree_mask=tree_mask, max_prefix_len=2)
    assert outputs[3].tolist() == [1, 2, 2]
    assert outputs[4].tolist() == [slots[[0, 1, 2]].tolist(), slots[[0, 1, 2]].tolist(), slots[[0, 2, 1]].tolist()]


@LENGTHS
@DTYPES
@NODES
@pytest.mark.parametrize("missing", [-3, 0, 2])
def test_custom_mask(agrees, lengths, dtype, num_nodes, missing):
    mask = masks(lengths, num_nodes, extra=3)
    arguments = rows(lengths, num_nodes, dtype)
    for slack in (0, 7):
        agrees(
            "verify_custom_mask_metadata",
            **arguments,
            tree_mask=mask[: max(0, len(mask) - 3 - missing)],
            seq_lens_sum=sum(lengths) + slack,
        )


@LENGTHS
@DTYPES
@NODES
def test_extend(agrees, lengths, dtype, num_nodes):
    for slack in (0, 7):
        agrees("verify_extend_metadata", **rows(lengths, num_nodes, dtype), seq_lens_sum=sum(lengths) + slack)


def test_keys_of_several_programs(agrees, cut):
    cut(block=lambda size, most, interpreted: 4, chunks=lambda items, chunks, programs: 2)
    lengths = [21, 0, 4]
    agrees("verify_extend_metadata", **rows(lengths, 3), seq_lens_sum=25)
    agrees("verify_custom_mask_metadata", **rows(lengths, 3), tree_mask=masks(lengths, 3)[::2], seq_lens_sum=25)


def test_sums_that_are_too_small_are_rejected(rejection):
    arguments = rows([4, 5], 2)
    assert rejection("verify_extend_metadata", **arguments, seq_lens_sum=8) is Reason.INCONSISTENT_LENGTHS
    too_few = masks([4, 5], 2)[:-1]
    assert rejection("verify_cascade_metadata", **arguments, tree_mask=too_few, max_prefix_len=5) is (
        Reason.INCONSISTENT_LENGTHS
    )


@ON_GPU
def test_large_batches(agrees):
    lengths = np.random.default_rng(0).integers(0, 3000, 200).tolist()
    arguments = rows(lengths, 32)
    agrees("verify_extend_metadata", **arguments, seq_lens_sum=sum(lengths) + 100)
    agrees("verify_cascade_metadata", **arguments, tree_mask=masks(lengths, 32), max_prefix_len=3000)
    lengths = [7, 900]
    agrees("verify_cascade_metadata", **rows(lengths, 1024), tree_mask=masks(lengths, 1024), max_prefix_len=900)
    agrees("verify_custom_mask_metadata", **rows(lengths, 1024), tree_mask=masks(lengths, 1024), seq_lens_sum=907)


@LENGTHS
@DTYPES
@pytest.mark.parametrize("page_size", [1, 4])
def test_idle_rows(agrees, cut, lengths, dtype, page_size):
    cut(block=lambda size, most, interpreted: 2)
    arguments = rows(lengths, 1, dtype)
    del arguments["num_draft_tokens"]
    for num_new_keys in (0, 1):
        agrees(
            "idle_attention_metadata", **arguments, num_new_keys=num_new_keys, max_seq_len_k=max(lengths, default=0) + 1
        )
    with_pages = {**arguments, "page_size": page_size}
    agrees("idle_attention_metadata", **with_pages, num_new_keys=1, max_seq_len_k=arguments["req_to_token"].shape[1])
