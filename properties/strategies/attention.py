"""Strategies of attention metadata for trees."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.properties.composite import composite
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
from specsim.properties.strategies.pages import near_a_page, page_sizes
from specsim.properties.strategies.topologies import (
    TREE_KINDS,
    batch,
    lengths,
    num_nodes,
    request_rows,
    slack,
    tree_of_kind,
)
from specsim.topology import Topology


@composite
def verify_cascade_metadata(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows and the full masks of trees, now and then masks of no tree; the mask may be longer than needed."""
    page_size = draw(sized("page_size", one_of_evenly(page_sizes(), st.just(1))))
    rows = draw(_rows(max_requests, page_size))
    longest = int(rows["seq_lens"].max(initial=0))
    most = rows["req_to_token"].shape[1]
    return {
        **rows,
        "tree_mask": np.concatenate([draw(full_masks(rows)), draw(_tail())]),
        "max_prefix_len": min(longest + draw(slack()), most),
        "page_size": page_size,
    }


@composite
def verify_custom_mask_metadata(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows and masks that are complete, lack the end, or go on."""
    rows = draw(_rows(max_requests))
    mask = draw(full_masks(rows))
    given = draw(st.sampled_from(("whole", "short", "short", "long")))
    if given == "short":
        mask = mask[: draw(st.integers(0, len(mask)))].copy()
    elif given == "long":
        mask = np.concatenate([mask, draw(_tail())])
    return {
        **rows,
        "tree_mask": mask,
        "seq_lens_sum": int(rows["seq_lens"].sum()) + draw(slack()),
    }


@composite
def verify_extend_metadata(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows; the stated sum of lengths may be larger than the true one."""
    rows = draw(_rows(max_requests))
    return {**rows, "seq_lens_sum": int(rows["seq_lens"].sum()) + draw(slack())}


@composite
def idle_attention_metadata(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw dummy rows, row 0 and length 1 among them, and rows of requests; the table may cover more than needed."""
    page_size = draw(sized("page_size", one_of_evenly(page_sizes(), st.just(1))))
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


@made_once
@composite
def _rows(draw: DrawFn, max_requests: int, page_size: int = 1) -> Arguments:
    width = draw(mostly(st.integers(1, 9), num_nodes(), one_in=4))
    one = one_of_evenly(lengths(), near_a_page(page_size, page_size)) if page_size > 1 else lengths()
    committed = draw(batch(one, max_requests))
    row_width = max(committed, default=0) + width + draw(slack())
    req_pool_indices, req_to_token = request_rows(draw(bulk()), len(committed), row_width, page_size)
    return {
        "req_pool_indices": req_pool_indices,
        "req_to_token": req_to_token,
        "seq_lens": np.array(committed, dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_draft_tokens": width,
    }


@composite
def full_masks(draw: DrawFn, rows: Arguments) -> Array:
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
    prefix = np.ones((len(tree), length), dtype=np.bool_)
    return np.concatenate([prefix, tree.closure], axis=1).reshape(-1)


@composite
def _tail(draw: DrawFn) -> Array:
    return draw(bulk()).integers(draw(slack()), 0, 1, np.bool_)
