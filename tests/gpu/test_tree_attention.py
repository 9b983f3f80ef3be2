import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.conformance.backend import load
from specsim.conformance.outcomes import Observation, first_difference
from specsim.gpu.arrays import DEVICE
from specsim.gpu.attention import splits_of
from specsim.gpu.launching.mode import launching
from specsim.properties.strategies.arrays import seeded
from specsim.properties.strategies.topologies import TREE_KINDS, tree_of_kind
from specsim.rejection import Reason

REFERENCE, GPU = load("specsim.reference"), load("specsim.gpu")
DTYPES = pytest.mark.parametrize("dtype", [bfloat16, np.float16, np.float32], ids=["bfloat16", "float16", "float32"])
ON_GPU = pytest.mark.skipif(DEVICE.type != "cuda", reason="too large for the interpreter")


def call(lengths, num_nodes, heads, head_dim, page_size=1, dtype=bfloat16, scale=None):
    """Return trees of every kind over prefixes of random numbers in scattered pages; other slots are NaN."""
    random = np.random.default_rng(len(lengths) * num_nodes + head_dim)
    count, (num_heads, num_kv_heads) = len(lengths), heads
    num_pages = -(-(max(lengths, default=0) + num_nodes) // page_size) + 1
    table = random.permutation(2 * count * num_pages + 1)[: count * num_pages].reshape(count, num_pages)
    shape = ((2 * count * num_pages + 1) * page_size, num_kv_heads, head_dim)
    buffers = {name: np.full(shape, np.nan, dtype=np.float32) for name in ("k_buffer", "v_buffer")}
    for pages, length in zip(table, lengths, strict=True):
        position = np.arange(length + num_nodes)
        slots = pages[position // page_size] * page_size + position % page_size
        for buffer in buffers.values():
            buffer[slots] = random.standard_normal((len(slots), num_kv_heads, head_dim))
    trees = [tree_of_kind(TREE_KINDS[at % len(TREE_KINDS)], num_nodes, seeded(at + 1)) for at in range(count)]
    return {
        "q": random.standard_normal((count * num_nodes, num_heads, head_dim)).astype(dtype),
        **{name: buffer.astype(dtype) for name, buffer in buffers.items()},
        "cache_seqlens": np.array(lengths, dtype=np.int32).reshape(count) + np.int32(num_nodes),
        "page_table": table.astype(np.int32),
        "tree_mask": np.array([tree.closure for tree in trees], dtype=np.bool_).reshape(-1),
        "softmax_scale": scale,
        "num_draft_tokens": num_nodes,
        "page_size": page_size,
    }


def require_agreement(arguments):
    """Compare both layers within what either may round, and return what the GPU returns."""
    expected, got = (layer.run("tree_attention", arguments).outputs for layer in (REFERENCE, GPU))
    assert first_difference("tree_attention", arguments, Observation(expected), Observation(got)) is None
    return got


@DTYPES
@pytest.mark.parametrize(("heads", "head_dim"), [((4, 1), 16), ((6, 2), 20), ((3, 3), 8)])
def test_types_and_heads(dtype, heads, head_dim):
    require_agreement(call([21, 0, 5], 5, heads, head_dim, 4, dtype))


@pytest.mark.parametrize("page_size", [1, 2, 16])
@pytest.mark.parametrize("num_nodes", [1, 7, 20])
def test_pages_and_nodes(page_size, num_nodes):
    require_agreement(call([33, 2], num_nodes, (4, 2), 16, page_size))


def test_a_scale_that_is_given():
    require_agreement(call([9], 3, (2, 1), 16, scale=np.array([0.7], np.float32)))


@DTYPES
@pytest.mark.parametrize("num_splits", [2, 3, 7])
def test_keys_split_over_programs(cut, dtype, num_splits):
    cut(block=lambda size, most, interpreted: 16, chunks=lambda items, chunks, programs: num_splits)
    require_agreement(call([100, 0, 31], 6, (4, 2), 16, 4, dtype))


def test_rows_of_several_programs(cut):
    cut(block=lambda size, most, interpreted: 16)
    require_agreement(call([40, 17], 20, (4, 1), 16, 16))


def test_parts_that_see_nothing(cut):
    cut(block=lambda size, most, interpreted: 16, chunks=lambda items, chunks, programs: 3)
    arguments = call([0, 0], 40, (2, 1), 16)
    mask = np.zeros((2, 40, 40), dtype=np.bool_)
    mask[:, ::2, 39] = True
    got = require_agreement({**arguments, "tree_mask": mask.reshape(-1)})
    assert (got["log_sum_exp"][1::2] == -np.inf).all()
    assert not got["attention"][1::2].astype(np.float32).any()


def test_an_empty_batch_launches_nothing():
    seen = []
    with launching(seen.append):
        require_agreement(call([], 3, (2, 1), 16))
    assert not seen


def test_splits_fill_the_machine_and_are_few():
    """Of 32 query and 8 KV heads: 64 requests fill it themselves, 4 of them take 8 programs each."""
    assert splits_of(64 * 8, 64, 4096) == 1
    assert splits_of(4 * 8, 64, 32_768) == 8
    assert splits_of(8, 64, 32_768) == 33
    assert splits_of(8, 64, 64) == 1


def test_a_number_that_is_infinite_is_rejected(rejection):
    arguments = call([3], 2, (2, 1), 8)
    keys = arguments["k_buffer"].copy()
    keys[np.isfinite(keys.astype(np.float32))] = np.inf
    assert rejection("tree_attention", **{**arguments, "k_buffer": keys}) is Reason.INFINITE_LOGIT


@ON_GPU
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("page_size", [1, 16])
@DTYPES
def test_sizes_of_production(head_dim, page_size, dtype):
    require_agreement(call([700, 65, 0], 16, (32, 8), head_dim, page_size, dtype))
    require_agreement(call([3000], 64, (8, 2), head_dim, page_size, dtype))
