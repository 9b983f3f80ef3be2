import numpy as np
import pytest
from ml_dtypes import bfloat16

from specsim.rejection import Reason


def blocks(num_requests, num_nodes):
    source = np.random.default_rng(num_nodes)
    return {
        "candidates": source.integers(0, 50, (num_requests, num_nodes)),
        "num_accepted_drafts": source.integers(0, num_nodes, num_requests).astype(np.int32),
        "bonus_tokens": source.integers(0, 50, num_requests).astype(np.int32),
    }


def logits(num_requests, num_nodes, vocab, most, dtype=np.float32):
    source = np.random.default_rng(vocab)
    return {
        "logits": (source.integers(-8, 8, (num_requests * num_nodes, vocab)) / 4).astype(dtype),
        "top_k": source.integers(1, most + 1, num_requests).astype(np.int32),
        "num_draft_tokens": num_nodes,
    }


@pytest.mark.parametrize(("num_requests", "num_nodes"), [(0, 2), (1, 1), (3, 2), (5, 16), (40, 16)])
def test_blocks_and_output(agrees, num_requests, num_nodes):
    arguments = blocks(num_requests, num_nodes)
    agrees("fill_block_tokens", **arguments)
    lengths = np.arange(num_requests, dtype=np.int64) * 7
    roots = arguments["bonus_tokens"]
    agrees("prepare_block_draft", bonus_tokens=roots, seq_lens=lengths, mask_token=77, num_draft_tokens=num_nodes)


@pytest.mark.parametrize("page_size", [1, 4, 64])
@pytest.mark.parametrize("window", [1, 5, 64, 2**31 - 1])
def test_windows(agrees, window, page_size):
    rows = np.arange(4 * 256, dtype=np.int32).reshape(4, 256)
    agrees(
        "block_draft_metadata",
        req_pool_indices=np.array([2, 0, 3], dtype=np.int64),
        req_to_token=rows,
        seq_lens=np.array([200, 1, 63], dtype=np.int32),
        draft_window=window,
        num_draft_tokens=16,
        page_size=page_size,
    )


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("num_requests", "num_nodes", "vocab", "most"), [(0, 2, 4, 1), (2, 1, 1, 1), (3, 2, 33, 20), (2, 3, 5000, 70)]
)
def test_exact_top_k(agrees, num_requests, num_nodes, vocab, most, dtype):
    agrees("keep_top_k_exactly", **logits(num_requests, num_nodes, vocab, most, dtype))


def test_a_request_that_keeps_all(agrees):
    arguments = logits(2, 2, 40, 8)
    agrees("keep_top_k_exactly", **{**arguments, "top_k": np.array([3, 40], dtype=np.int32)})


def test_small_tiles(agrees, cut):
    cut(block=lambda size, most, interpreted: 8)
    agrees("keep_top_k_exactly", **logits(2, 2, 33, 20))
    agrees("fill_block_tokens", **blocks(3, 5))


@pytest.mark.parametrize("dtype", [np.float32, bfloat16], ids=["float32", "bfloat16"])
def test_the_largest_logits_of_a_row_may_share_a_lane(agrees, cut, dtype):
    """A lane keeps four of them: more, or ties after the fourth, have the row searched."""
    cut(block=lambda size, most, interpreted: 4 if most > 256 else interpreted)
    rows = (np.arange(5 * 40).reshape(5, 40) % 7 - 100).astype(dtype)
    rows[0, ::4] = np.arange(10)
    rows[1], rows[1, ::4] = np.nextafter(dtype(3), dtype(0)), 3
    rows[2, 1::4], rows[2, ::8] = 3, 5
    rows[3] = np.where(np.arange(40) % 4, -0.0, 0.0)
    rows[4] = np.where(np.arange(40) % 9, -np.inf, 1)
    counts = np.array([6, 4, 12, 7, 39], dtype=np.int32)
    agrees("keep_top_k_exactly", logits=rows, top_k=counts, num_draft_tokens=1)


def test_views(agrees):
    arguments = logits(2, 3, 40, 9, bfloat16)
    wide = np.concatenate([arguments["logits"]] * 2, axis=1)
    agrees("keep_top_k_exactly", **{**arguments, "logits": wide[:, ::2][::-1]})


def test_an_empty_row_is_rejected(rejection):
    arguments = logits(1, 2, 3, 1)
    arguments["logits"][1] = -np.inf
    assert rejection("keep_top_k_exactly", **arguments) is Reason.EMPTY_DISTRIBUTION
