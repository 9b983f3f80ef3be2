"""Strategies of the compact operations."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, VALUE_DTYPES, Arguments, Array, Bulk, bulk, mostly
from specsim.properties.strategies.limits import limits, nearest
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import any_slots, batch, distinct_slots, num_nodes

OVERLAP_KINDS = ("random", "ascending", "cycle", "shift", "self")
_GARBAGE = (-(2**31), 2**31 - 1)


@dataclass(frozen=True)
class Accepted:
    """Accepted paths of a batch: global node numbers, tokens a request, nodes a tree, and a source of values."""

    accept_index: Array
    num_accepted_tokens: Array
    num_nodes: int
    source: Bulk

    @property
    def num_entries(self) -> int:
        """Nodes of the whole batch."""
        return len(self.accept_index) * self.num_nodes


@made_once
@composite
def accepted(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Accepted:
    """Draw one path a request, from the root alone to a full row; most often its numbers ascend."""
    count = draw(num_nodes())
    num_drafts = draw(st.one_of(st.integers(0, min(count, 7) - 1), st.just(count - 1)))
    num_drafts = min(nearest("draft", num_drafts), count - 1)
    one = st.tuples(st.sampled_from(("none", "some", "all")), st.sampled_from((True, True, False)), bulk())
    requests = draw(batch(one, max_requests))
    accept_index = np.full((len(requests), num_drafts + 1), -1, dtype=np.int32)
    for request, (kind, is_ascending, source) in enumerate(requests):
        length = {"none": 0, "some": source.integer(0, num_drafts), "all": num_drafts}[kind]
        path = source.order(count - 1)[:length] + 1
        path = np.sort(path) if is_ascending else path
        accept_index[request, : length + 1] = request * count + np.concatenate([[0], path])
    return Accepted(accept_index, (accept_index >= 0).sum(axis=1).astype(np.int32), count, draw(bulk()))


@composite
def gather_accept_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw output tokens on the accepted paths and garbage off them."""
    paths = draw(accepted(max_requests))
    predict = paths.source.integers(paths.num_entries, *_GARBAGE, np.int32)
    nodes = paths.accept_index[paths.accept_index >= 0]
    predict[nodes] = paths.source.integers(len(nodes), 0, 40, np.int32)
    return {"predict": predict, "accept_index": paths.accept_index}


@composite
def fill_bonus_tokens(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw output tokens with garbage past each count."""
    paths = draw(accepted(max_requests))
    shape = paths.accept_index.shape
    tokens = paths.source.integers(shape, 0, 40, np.int32)
    tokens = np.where(paths.accept_index >= 0, tokens, paths.source.integers(shape, *_GARBAGE, np.int32))
    return {"accept_tokens": tokens, "num_accepted_tokens": paths.num_accepted_tokens}


@composite
def fill_accept_out_cache_loc(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths and the slots of all nodes."""
    paths = draw(accepted(max_requests))
    return {"accept_index": paths.accept_index, "out_cache_loc": any_slots(paths.source, paths.num_entries)}


@composite
def fill_accept_target_cache_loc(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw counts and the slots of all nodes."""
    paths = draw(accepted(max_requests))
    slots, num_steps = any_slots(paths.source, paths.num_entries), paths.accept_index.shape[1] - 1
    return {"num_accepted_tokens": paths.num_accepted_tokens, "out_cache_loc": slots, "num_steps": num_steps}


@composite
def compact_accepted_to_front(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw ids, hidden states or anything else that has one entry a node."""
    paths = draw(accepted(max_requests))
    trailing = draw(st.sampled_from(((), (), (1,), (5,), (2, 3), (33,))))
    values = paths.source.values((paths.num_entries, *trailing), draw(st.sampled_from(VALUE_DTYPES)))
    return {"values": values, "accept_index": paths.accept_index}


@composite
def move_kv_cache(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw moves that overlap in every way, packed to the front of a tail of dump slots."""
    num_slots = draw(mostly(st.integers(2, 24), st.sampled_from((64, 65, 130)), one_in=3))
    most = min(num_slots - 1, 24 if num_slots <= 24 else num_slots) if max_requests else 0
    fewest = min(most, nearest("pair", 0 if limits().takes_empty else 1))
    count = draw(st.one_of(st.integers(fewest, max(fewest, min(most, 4))), st.integers(fewest, most)))
    targets, sources = pairs(draw(st.sampled_from(OVERLAP_KINDS)), count, num_slots, draw(bulk()))
    tail = np.zeros(draw(st.sampled_from((0, 0, 1, 5))) if max_requests else 0, dtype=np.int64)
    targets, sources = (np.concatenate([slots, tail]) for slots in (targets, sources))
    return {"kv_buffers": draw(kv_buffers(num_slots)), "target_slots": targets, "source_slots": sources}


@made_once
def kv_buffers(num_slots: int) -> st.SearchStrategy[list[Array]]:
    """Return a strategy of lists of up to six buffers, of different widths and element types."""
    shapes, dtypes = st.sampled_from(((3,), (), (1,), (4, 2), (33,))), st.sampled_from(VALUE_DTYPES)
    buffer = st.builds(lambda shape, dtype, source: source.values((num_slots, *shape), dtype), shapes, dtypes, bulk())
    return st.lists(buffer, max_size=6)


def pairs(kind: str, count: int, num_slots: int, source: Bulk) -> tuple[Array, Array]:
    """Return distinct target slots and their sources, none of them the dump.

    The ascending kind is that of an accepted path; a shift is a chain in which each source is the next target; the
    others speak for themselves.
    """
    targets = distinct_slots(source, count, num_slots).astype(np.int64)
    if kind == "random":
        return targets, source.integers(count, 1, num_slots - 1)
    if kind == "self":
        return targets, targets.copy()
    if kind == "cycle":
        return targets, np.roll(targets, -1)
    if kind == "shift":
        order = distinct_slots(source, min(count + 1, num_slots - 1), num_slots).astype(np.int64)
        return order[:-1], order[1:]
    drop = source.integer(0, num_slots - 1 - count)
    sources = np.sort(source.order(num_slots - 1 - drop)[:count]) + 1 + drop
    return np.arange(count, dtype=np.int64) + 1, sources.astype(np.int64)
