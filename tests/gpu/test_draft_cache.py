import numpy as np
import pytest

from specsim.counts import draft_end
from specsim.gpu.launching.blocks import power_of_two
from specsim.rejection import Reason

NO_REQUEST: list[int] = []
BATCHES = pytest.mark.parametrize(
    "lengths", [NO_REQUEST, [0], [9, 8], [5, 0, 17, 1, 30]], ids=["none", "length-0", "two", "ragged"]
)
SHAPES = pytest.mark.parametrize(("topk", "num_steps"), [(1, 1), (1, 4), (2, 3), (3, 5), (4, 1)])


def rows_of(lengths, row_width, dtype=np.int64, seed=0):
    """Return lengths, rows and a table of distinct slots; the last request has the last row."""
    num_rows = len(lengths) + 3
    table = np.random.default_rng(seed).permutation(num_rows * row_width).reshape(num_rows, row_width)
    return {
        "req_pool_indices": np.arange(num_rows - len(lengths), num_rows)[::-1].copy()[::-1],
        "req_to_token": table.astype(np.int32),
        "seq_lens": np.array(lengths, dtype=dtype),
    }


@BATCHES
@SHAPES
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_draft_slots(agrees, lengths, topk, num_steps, dtype):
    row_width = max(lengths, default=0) + topk * num_steps
    agrees("assign_draft_cache_locs", **rows_of(lengths, row_width, dtype), topk=topk, num_steps=num_steps)


@SHAPES
@pytest.mark.parametrize("num_requests", [0, 1, 70])
def test_slots_of_each_step(agrees, num_requests, topk, num_steps):
    slots = np.random.default_rng(1).permutation(num_requests * topk * num_steps)
    agrees("per_step_draft_out_cache_loc", out_cache_loc=slots, topk=topk, num_steps=num_steps)


@BATCHES
@SHAPES
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_visible_slots(agrees, lengths, topk, num_steps, dtype):
    row_width = max(lengths, default=0) + topk * num_steps + 2
    agrees(
        "generate_draft_decode_kv_indices",
        **rows_of(lengths, row_width, dtype),
        positions=np.repeat(np.array(lengths, dtype=np.int64), topk),
        topk=topk,
        num_steps=num_steps,
    )


def test_prefixes_of_several_blocks_and_shares(agrees, cut):
    lengths = [4096, 9000, 4095]
    arguments = {**rows_of(lengths, 9006), "positions": np.repeat(lengths, 2), "topk": 2, "num_steps": 2}
    agrees("generate_draft_decode_kv_indices", **arguments)
    cut(chunks=lambda items, chunks, programs: 2)
    agrees("generate_draft_decode_kv_indices", **arguments)


@BATCHES
@SHAPES
@pytest.mark.parametrize("page_size", [2, 4, 64])
def test_drafts_on_pages(agrees, lengths, topk, num_steps, page_size):
    row_width = max((int(draft_end(length, topk, num_steps, page_size)) for length in lengths), default=4)
    tails = sum(length % page_size for length in lengths)
    arguments = {**rows_of(lengths, row_width), "topk": topk, "num_steps": num_steps, "page_size": page_size}
    agrees("assign_draft_cache_locs", **arguments, num_copies=(topk - 1) * tails + 2)
    positions = np.repeat(np.array(lengths, dtype=np.int64), topk)
    agrees("generate_draft_decode_kv_indices", **arguments, positions=positions)
    agrees("draft_decode_cascade_metadata", **arguments, max_prefix_len=max(lengths, default=0))


def test_copies_of_many_requests(agrees, cut):
    lengths = np.random.default_rng(3).integers(0, 40, 150).tolist()
    arguments = {**rows_of(lengths, 60), "topk": 2, "num_steps": 2, "page_size": 4}
    tails = sum(length % 4 for length in lengths)
    agrees("assign_draft_cache_locs", **arguments, num_copies=tails + 1)
    cut(block=lambda size, most, interpreted: min(64, power_of_two(size)))
    agrees("assign_draft_cache_locs", **arguments, num_copies=tails + 1)
    agrees("draft_decode_cascade_metadata", **arguments, max_prefix_len=58)


def test_views_are_read_where_they_lie(agrees):
    arguments = rows_of([7, 3], 40)
    arguments["req_to_token"] = arguments["req_to_token"].T.copy().T[:, ::2]
    arguments["seq_lens"] = np.array([7, 0, 3, 0])[::2]
    agrees("assign_draft_cache_locs", **arguments, topk=2, num_steps=3)
    positions = np.repeat([7, 3], 4)[::2]
    agrees("generate_draft_decode_kv_indices", **arguments, positions=positions, topk=2, num_steps=3)
    agrees("per_step_draft_out_cache_loc", out_cache_loc=np.arange(24)[1::2], topk=2, num_steps=3)


def test_short_rows_and_advanced_positions_are_rejected(rejection):
    arguments = {**rows_of([5, 3], 8), "topk": 2, "num_steps": 2}
    assert rejection("assign_draft_cache_locs", **arguments) is Reason.ROW_TOO_SHORT
    arguments = {**rows_of([4, 3], 8), "topk": 2, "num_steps": 2}
    advanced = np.array([4, 4, 4, 4])
    reason = rejection("generate_draft_decode_kv_indices", **arguments, positions=advanced)
    assert reason is Reason.INCONSISTENT_LENGTHS
    reason = rejection("per_step_draft_out_cache_loc", out_cache_loc=np.arange(5), topk=2, num_steps=2)
    assert reason is Reason.NOT_DIVISIBLE
