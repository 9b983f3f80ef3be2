"""Strategies of the model forwards: a small world of requests, pages and tagged KV in which garbage looks plausible."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from specsim.hashing import MASK as WORD
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, bulk
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import TREE_KINDS, batch, tree_of_kind

_MOST_REQUESTS = 4
_PREFIXES = (0, 1, 2, 3, 5, 8, 9, 33, 65)


@dataclass(frozen=True)
class Member:
    """One request of a forward: cached tokens, new tokens, the shape of their tree, and a source of values.

    A padded request owns no slot: it reads and writes the dump.
    """

    prefix: int
    width: int
    kind: str
    is_padding: bool
    source: Bulk

    @property
    def total(self) -> int:
        """Keys of the request, the new ones included."""
        return self.prefix + self.width


@dataclass(frozen=True)
class World:
    """Pool, page table and lengths of a batch, and the slots of each request in position order."""

    kv_buffers: list[Array]
    page_table: Array
    cache_seqlens: Array
    slots: list[Array]


@made_once
def members(width: st.SearchStrategy[int], max_requests: int) -> st.SearchStrategy[list[Member]]:
    """Return a strategy of batches; one request in five is padding, of committed length 1."""
    is_padding = st.sampled_from((False, False, False, False, True))
    one = st.builds(_member, st.sampled_from(_PREFIXES), width, st.sampled_from(TREE_KINDS), is_padding, bulk())
    return batch(one, min(max_requests, _MOST_REQUESTS))


def _member(prefix: int, width: int, kind: str, is_padding: bool, source: Bulk) -> Member:
    return Member(1 if is_padding else prefix, width, kind, is_padding, source)


def world(requests: Sequence[Member], num_layers: int, page_size: int, source: Bulk) -> World:
    """Lay the requests out in pages; unowned slots and stale page-table columns hold what others might own."""
    runs = [0 if request.is_padding else -(-request.total // page_size) for request in requests]
    num_pages = 1 + sum(runs) + source.integer(1, 3)
    free = (source.order(num_pages - 1) + 1).tolist()
    longest = max((-(-request.total // page_size) for request in requests), default=0)
    page_table = source.integers((len(requests), longest + source.integer(0, 2)), 0, num_pages - 1, np.int32)
    buffers = [_garbage(num_pages * page_size, component, source) for component in range(2 * num_layers)]
    slots = []
    for row, (request, run) in enumerate(zip(requests, runs, strict=True)):
        if request.is_padding:
            page_table[row] = 0
            slots.append(np.zeros(request.total, dtype=np.int64))
            continue
        pages = [free.pop() for _ in range(run)]
        page_table[row, :run] = pages
        owned = (np.array(pages, dtype=np.int64)[:, None] * page_size + np.arange(page_size)).reshape(-1)
        slots.append(owned[: request.total])
        for buffer in buffers:
            buffer[owned[: request.prefix], 0] = np.arange(request.prefix)
    return World(buffers, page_table, np.array([request.total for request in requests], dtype=np.int32), slots)


@composite
def target_forward(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw a verify with tree masks, or a ragged causal forward."""
    has_mask = draw(st.booleans())
    requests = draw(members(st.just(draw(st.integers(1, 5))) if has_mask else st.integers(0, 4), max_requests))
    squares = [tree_of_kind(request.kind, request.width, request.source).closure for request in requests if has_mask]
    depths = [square.sum(axis=1) - 1 for square in squares] or [np.arange(request.width) for request in requests]
    num_layers, page_size = draw(st.integers(1, 3)), draw(_page_sizes())
    source = draw(bulk())
    made = world(requests, num_layers, page_size, source)
    flat = [np.zeros(0, dtype=np.bool_), *(square.reshape(-1) for square in squares)]
    tree_mask = np.concatenate(flat) if has_mask else None
    return {**_queries(requests, made, depths, source), "tree_mask": tree_mask, "page_size": page_size}


@composite
def draft_extend_forward(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw a ragged causal forward of the draft model; some requests have more new tokens than keys."""
    requests = draw(members(st.integers(0, 4), max_requests))
    num_layers, page_size = draw(st.integers(1, 2)), draw(_page_sizes())
    source = draw(bulk())
    made = world(requests, num_layers, page_size, source)
    arguments = _queries(requests, made, [np.arange(request.width) for request in requests], source)
    _begin_before_the_text(arguments, requests, source)
    hidden = source.integers((len(arguments["input_ids"]), draw(st.integers(2, 4))), 0, WORD)
    return {**arguments, "hidden_states": hidden, "page_size": page_size}


@composite
def draft_decode_forward(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw one new token a beam; a beam sees the prefix and its own entries, the newest among them."""
    topk, step = draw(st.integers(1, 4)), draw(st.integers(0, 2))
    requests = draw(members(st.just(topk * (step + 1)), max_requests))
    source = draw(bulk())
    made = world(requests, draw(st.integers(1, 2)), 1, source)
    visible = [
        np.concatenate([slots[: request.prefix], own])
        for request, slots in zip(requests, made.slots, strict=True)
        for own in slots[request.prefix :].reshape(topk, step + 1)
    ]
    lengths = [len(slots) for slots in visible]
    tail = source.integers(draw(st.sampled_from((0, 1, 7))), 0, len(made.kv_buffers[0]) - 1)
    count = len(visible)
    return {
        "kv_buffers": made.kv_buffers,
        "input_ids": source.integers(count, 0, 255),
        "hidden_states": source.integers((count, draw(st.integers(2, 4))), 0, WORD),
        "positions": np.repeat([request.prefix + step for request in requests], topk).astype(np.int64),
        "out_cache_loc": np.array([slots[-1] for slots in visible], dtype=np.int64),
        "kv_indices": np.concatenate([*visible, tail]).astype(np.int32),
        "kv_indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
    }


def _queries(requests: Sequence[Member], made: World, depths: Sequence[Array], source: Bulk) -> Arguments:
    """Return the arguments that both forwards over page tables share; the new tokens are the last keys."""
    widths = [request.width for request in requests]
    positions = [request.prefix + depth for request, depth in zip(requests, depths, strict=True)]
    new_slots = [slots[request.prefix :] for request, slots in zip(requests, made.slots, strict=True)]
    nothing = np.zeros(0, dtype=np.int64)
    return {
        "kv_buffers": made.kv_buffers,
        "input_ids": source.integers(sum(widths), 0, 255),
        "positions": np.concatenate([nothing, *positions]).astype(np.int64),
        "out_cache_loc": np.concatenate([nothing, *new_slots]),
        "page_table": made.page_table,
        "cache_seqlens": made.cache_seqlens,
        "cu_seqlens_q": np.concatenate([[0], np.cumsum(widths)]).astype(np.int32),
    }


def _begin_before_the_text(arguments: Arguments, requests: Sequence[Member], source: Bulk) -> None:
    """Let windows without a prefix begin some tokens before position 0: those have the dump slot, and see nothing."""
    end = 0
    for number, request in enumerate(requests):
        start, end = end, end + request.width
        num_before = 0 if request.prefix or request.is_padding else source.integer(0, request.width)
        for name in ("positions", "out_cache_loc"):
            own = arguments[name][start:end]
            arguments[name][start:end] = [*[0] * num_before, *own[: request.width - num_before]]
        arguments["cache_seqlens"][number] -= num_before


def _garbage(num_slots: int, component: int, source: Bulk) -> Array:
    """Return a buffer of tags such as a stale request might have left."""
    tags = source.integers((num_slots, 4), 0, 255)
    tags[:, 0] = source.integers(num_slots, 0, 12)
    tags[:, 2] = source.integers(num_slots, 0, WORD)
    tags[:, 3] = component
    return tags


@made_once
def _page_sizes() -> st.SearchStrategy[int]:
    return st.sampled_from((1, 1, 1, 2, 4))
