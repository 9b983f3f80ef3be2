import numpy as np
import pytest

from specsim.rejection import Reason

WORD = 2**32 - 1


def pool(num_slots, num_layers, seed):
    """Return buffers of plausible garbage: positions near the real ones, any words elsewhere."""
    source = np.random.default_rng(seed)
    entries = source.integers(0, WORD, (2 * num_layers, num_slots, 4), endpoint=True)
    entries[:, :, 0] = source.integers(0, 12, (2 * num_layers, num_slots))
    return list(entries)


def layout(prefixes, widths, page_size=1, num_layers=2, seed=0, padding=0):
    """Return the shared arguments of a forward; the last ``padding`` requests own no slot."""
    source = np.random.default_rng(seed)
    totals = np.array(prefixes) + widths
    num_pages = 1 + int(np.sum(-(-totals // page_size)))
    free = (source.permutation(num_pages - 1) + 1).tolist()
    page_table = source.integers(0, num_pages, (len(totals), int(max(totals, default=0)) + 1)).astype(np.int32)
    slots = []
    for row, total in enumerate(totals):
        pages = np.array([free.pop() for _ in range(-(-total // page_size))], dtype=np.int64)
        if row >= len(totals) - padding:
            pages[:] = 0
            page_table[row] = 0
        page_table[row, : len(pages)] = pages
        place = np.arange(prefixes[row], total)
        slots.append(pages[place // page_size] * page_size + place % page_size)
    count = int(np.sum(widths))
    return {
        "kv_buffers": pool(num_pages * page_size, num_layers, seed),
        "input_ids": source.integers(0, 256, count),
        "positions": np.concatenate([np.arange(0), *map(np.arange, prefixes, totals)]),
        "out_cache_loc": np.concatenate([np.arange(0), *slots]).astype(np.int64),
        "page_table": page_table,
        "cache_seqlens": totals.astype(np.int32),
        "cu_seqlens_q": np.concatenate([[0], np.cumsum(widths)]).astype(np.int32),
        "page_size": page_size,
    }


def closures(num_requests, num_nodes, seed):
    """Return the ancestor closures of random trees, flat."""
    source = np.random.default_rng(seed)
    masks = np.zeros((num_requests, num_nodes, num_nodes), dtype=np.bool_)
    for mask in masks:
        for node in range(num_nodes):
            if node:
                mask[node] = mask[source.integers(0, node)]
            mask[node, node] = True
    return masks.reshape(-1)


def hidden(count, num_words, seed=3):
    return np.random.default_rng(seed).integers(0, WORD, (count, num_words), endpoint=True)


SHAPES = pytest.mark.parametrize(
    ("prefixes", "widths"),
    [([0, 0], [5, 2]), ([3, 70, 0], [4, 4, 4]), ([9], [1]), ([1, 200, 3], [40, 0, 7]), ([0], [300])],
    ids=["prefill", "verify", "decode", "ragged", "long-prefill"],
)


@SHAPES
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_causal_target(agrees, prefixes, widths, page_size, num_layers):
    agrees("target_forward", **layout(prefixes, widths, page_size, num_layers), tree_mask=None)


@pytest.mark.parametrize("num_nodes", [1, 4, 17])
@pytest.mark.parametrize("padding", [0, 2])
def test_target_over_trees(agrees, num_nodes, padding):
    prefixes = [0, 5, 131, 1, 1]
    agrees(
        "target_forward",
        **layout(prefixes, [num_nodes] * 5, padding=padding),
        tree_mask=closures(5, num_nodes, seed=num_nodes),
    )


@SHAPES
def test_draft_extend(agrees, prefixes, widths):
    for num_layers in (1, 2):
        arguments = layout(prefixes, widths, num_layers=num_layers)
        agrees("draft_extend_forward", **arguments, hidden_states=hidden(sum(widths), 3))


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("prefixes", [[7], [0, 90, 300, 5], []], ids=["one", "batch", "none"])
def test_draft_decode(agrees, prefixes, num_layers):
    topk = 3
    arguments = layout(prefixes, [topk] * len(prefixes), num_layers=num_layers)
    beams = arguments["out_cache_loc"].reshape(-1, topk)
    visible = [
        np.concatenate([arguments["page_table"][row, :prefix], [slot]])
        for row, prefix in enumerate(prefixes)
        for slot in beams[row]
    ]
    lengths = [len(slots) for slots in visible]
    agrees(
        "draft_decode_forward",
        **{name: arguments[name] for name in ("kv_buffers", "input_ids", "positions", "out_cache_loc")},
        hidden_states=hidden(len(visible), 4),
        kv_indices=np.concatenate([np.arange(0), *visible, [0] * 5]).astype(np.int32),
        kv_indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
    )


def test_an_empty_batch(agrees):
    arguments = layout([], [])
    agrees("target_forward", **arguments, tree_mask=np.zeros(0, dtype=np.bool_))
    agrees("draft_extend_forward", **arguments, hidden_states=hidden(0, 3))


def test_views_are_read_and_written_where_they_lie(agrees):
    arguments = layout([3, 70, 0], [4, 4, 4], num_layers=1)
    num_slots = len(arguments["kv_buffers"][0])
    base = np.random.default_rng(5).integers(0, WORD, (2, 2 * num_slots + 1, 9))
    arguments["kv_buffers"] = [base[0, 1::2, 1::2], base[1, ::2, ::2][:num_slots, :4]]
    wide = np.zeros((3, 2 * arguments["page_table"].shape[1]), dtype=np.int32)
    wide[:, ::2] = arguments["page_table"]
    arguments["page_table"] = wide[:, ::2]
    agrees("target_forward", **arguments, tree_mask=closures(3, 4, seed=1))


def test_batches_wider_than_a_block(agrees):
    widths = (np.arange(90) % 3).tolist()
    agrees("target_forward", **layout([2] * 90, widths, num_layers=1), tree_mask=None)


def test_lengths_that_do_not_fit_are_rejected(rejection):
    arguments = layout([3, 2], [4, 4])
    short = {**arguments, "cache_seqlens": np.array([3, 6], dtype=np.int32)}
    outside = {**arguments, "out_cache_loc": arguments["out_cache_loc"] + 10_000}
    assert rejection("target_forward", **short, tree_mask=None) is Reason.INCONSISTENT_LENGTHS
    assert rejection("target_forward", **outside, tree_mask=None) is Reason.SLOT_OUT_OF_RANGE
    narrow = np.ones(9, dtype=np.bool_)
    assert rejection("target_forward", **arguments, tree_mask=narrow) is Reason.WRONG_SHAPE
