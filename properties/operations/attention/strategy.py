"""Strategies of attention metadata for trees, and of attention."""

import numpy as np
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from specsim.contracts.attended import slots_read
from specsim.properties.composite import composite
from specsim.properties.operations.pages.strategy import near_a_page, page_sizes
from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    Arguments,
    Array,
    Bulk,
    bulk,
    mostly,
    one_of_evenly,
)
from specsim.properties.strategies.limits import sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import Fault
from specsim.properties.strategies.topologies import (
    TREE_KINDS,
    batch,
    distinct_slots,
    lengths,
    mapped,
    num_nodes,
    request_rows,
    slack,
    tree_of_kind,
)
from specsim.topology import Topology

ACTIVATION_DTYPES = (bfloat16, np.float16, np.float32)
GROUPS = (4, 1, 2, 3)
"""Query heads of a KV head."""


@composite
def verify_cascade_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows and the full masks of trees, now and then masks of no tree; the mask may be longer than needed."""
    page_size = draw(sized("page_size", mostly(page_sizes(), st.just(1), one_in=4)))
    rows = draw(_rows(max_requests, page_size))
    return {
        **rows,
        "tree_mask": np.concatenate([draw(full_masks(rows)), draw(_tail())]),
        "max_prefix_len": min(int(rows["seq_lens"].max(initial=0)) + draw(slack()), rows["req_to_token"].shape[1]),
        "page_size": page_size,
    }


@composite
def verify_custom_mask_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows and masks that are complete, lack the end, or go on."""
    rows = draw(_rows(max_requests))
    mask = draw(full_masks(rows))
    given = draw(st.sampled_from(("whole", "short", "short", "long")))
    if given == "short":
        mask = mask[: draw(st.integers(0, len(mask)))].copy()
    elif given == "long":
        mask = np.concatenate([mask, draw(_tail())])
    return {**rows, "tree_mask": mask, "seq_lens_sum": int(rows["seq_lens"].sum()) + draw(slack())}


@composite
def verify_extend_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows; the stated sum of lengths may be larger than the true one."""
    rows = draw(_rows(max_requests))
    return {**rows, "seq_lens_sum": int(rows["seq_lens"].sum()) + draw(slack())}


@composite
def idle_attention_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw dummy rows, row 0 and length 1 among them, and rows of requests; the table may cover more than needed."""
    page_size = draw(sized("page_size", mostly(page_sizes(), st.just(1), one_in=4)))
    rows = draw(_rows(max_requests, page_size))
    rows.pop("num_draft_tokens")
    has_room = rows["req_to_token"].shape[1] > 1
    for place in draw(st.lists(st.integers(0, MAX_REQUESTS - 1), max_size=3)) if has_room else ():
        rows["req_pool_indices"][place : place + 1] = 0
        rows["seq_lens"][place : place + 1] = 1
    num_new_keys = draw(st.integers(0, 1))
    longest = int(rows["seq_lens"].max(initial=0)) + num_new_keys
    return {
        **rows,
        "num_new_keys": num_new_keys,
        "max_seq_len_k": min(longest + draw(slack()), rows["req_to_token"].shape[1]),
        "page_size": page_size,
    }


@composite
def tree_attention(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw queries, trees and a pool in pages, some of which requests share; slots without a key may be no numbers.

    Columns of the table past a length hold anything. Now and then a mask is that of no tree.
    """
    page_size = draw(sized("page_size", mostly(page_sizes(), st.just(1), one_in=4)))
    width = draw(mostly(st.integers(1, 9), num_nodes(), one_in=6))
    one = near_a_page(page_size, page_size) if page_size > 1 else lengths()
    committed = draw(batch(st.tuples(one, st.sampled_from((*TREE_KINDS, "no tree"))), max_requests))
    count, source = len(committed), draw(bulk())
    num_kv_heads = draw(sized("kv_head", st.integers(1, 3)))
    num_heads = num_kv_heads * draw(st.sampled_from(GROUPS))
    head_dim = draw(sized("head_dim", st.sampled_from((8, 16, 5, 1, 20))))
    dtype = draw(st.sampled_from(ACTIVATION_DTYPES))
    keys = [length + width for length, _ in committed]
    num_pages = -(-max(keys, default=0) // page_size) + source.integer(0, 2)
    most = 2 * count * num_pages + 2
    table = distinct_slots(source, count * num_pages, most).reshape(count, num_pages)
    sharing = [request for request, (length, _) in enumerate(committed) if length >= page_size]
    if sharing and draw(st.sampled_from((False, True))):
        table[sharing, 0] = table[sharing[0], 0]
    past = np.arange(num_pages)[None, :] * page_size >= np.array(keys)[:, None]
    stale = draw(st.sampled_from((0, -1, 2**30)))

    def numbers(*shape: int) -> Array:
        return source.eighths(shape, -16, 16).astype(dtype)

    masks = [
        source.integers((width, width), 0, 1, np.bool_)
        if kind == "no tree"
        else tree_of_kind(kind, width, source).closure
        for _, kind in committed
    ]
    scale = draw(mostly(st.none(), st.sampled_from((0.125, 1.0)), one_in=2))
    arguments: Arguments = {
        "q": numbers(count * width, num_heads, head_dim),
        "k_buffer": numbers(most * page_size, num_kv_heads, head_dim),
        "v_buffer": numbers(most * page_size, num_kv_heads, head_dim),
        "cache_seqlens": np.array(keys, dtype=np.int32),
        "page_table": np.where(past, stale, table).astype(np.int32).reshape(count, num_pages),
        "tree_mask": np.array(masks, dtype=np.bool_).reshape(-1),
        "softmax_scale": None if scale is None else np.array([scale], dtype=np.float32),
        "num_draft_tokens": width,
        "page_size": page_size,
    }
    unread = draw(st.sampled_from((None, float("nan"), float("inf"))))
    if unread is None:
        return arguments
    no_keys = ~slots_read(arguments, most * page_size)[:, None, None]
    buffers = {name: np.where(no_keys, dtype(unread), arguments[name]) for name in ("k_buffer", "v_buffer")}
    return {**arguments, **buffers}


@made_once
@composite
def _rows(draw: st.DrawFn, max_requests: int, page_size: int = 1) -> Arguments:
    width = draw(mostly(st.integers(1, 9), num_nodes(), one_in=4))
    one = one_of_evenly(lengths(), near_a_page(page_size, page_size)) if page_size > 1 else lengths()
    committed = draw(batch(one, max_requests))
    row_width = max(committed, default=0) + width + draw(slack())
    rows = request_rows(draw(bulk()), len(committed), row_width, page_size)
    return {**mapped(rows, committed, draw(st.sampled_from(LENGTH_DTYPES))), "num_draft_tokens": width}


@composite
def full_masks(draw: st.DrawFn, rows: Arguments) -> Array:
    """Draw the full mask of a batch: a request's nodes see its whole prefix and, of the nodes, their ancestors."""
    count = len(rows["seq_lens"])
    kinds = draw(st.lists(st.sampled_from((*TREE_KINDS, "no tree")), min_size=count, max_size=count))
    source = draw(bulk())
    masks = [
        _full_mask(kind, int(length), rows["num_draft_tokens"], source)
        for kind, length in zip(kinds, rows["seq_lens"], strict=True)
    ]
    return np.concatenate([np.zeros(0, dtype=np.bool_), *masks])


def _full_mask(kind: str, length: int, width: int, source: Bulk) -> Array:
    if kind == "no tree":
        return source.integers(width * (length + width), 0, 1, np.bool_)
    return full_mask(tree_of_kind(kind, width, source), length)


def full_mask(tree: Topology, length: int) -> Array:
    """Return the mask rows of one request's nodes, flat."""
    return np.concatenate([np.ones((len(tree), length), dtype=np.bool_), tree.closure], axis=1).reshape(-1)


@composite
def _tail(draw: st.DrawFn) -> Array:
    return draw(bulk()).integers(draw(slack()), 0, 1, np.bool_)


def _infinite(name: str) -> Fault:
    """Return the fault that a number which is read is infinite; of a pool it is one of the first key."""

    def spoil(arguments: Arguments, seed: int) -> Arguments:
        values = arguments[name]
        if values is None or not values.size:
            return arguments
        place = seed % len(values)
        if name.endswith("buffer"):
            read = np.flatnonzero(slots_read(arguments, len(values)))
            if not len(read):
                return arguments
            place = int(read[seed % len(read)])
        changed = values.copy()
        changed[place] = np.inf
        return {**arguments, name: changed}

    return spoil


FAULTS: dict[str, tuple[Fault, ...]] = {
    "tree_attention": tuple(map(_infinite, ("q", "k_buffer", "v_buffer", "softmax_scale")))
}
