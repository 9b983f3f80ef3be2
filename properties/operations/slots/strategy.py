"""Strategies of the slot operations."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.compact.strategy import accepted
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, bulk, mostly
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import any_slots, batch, lengths, mapped, request_rows, slack


@composite
def assign_req_to_token_pool(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw ranges of distinct rows, empty ones among them, and the slots that go there."""
    arguments, total = draw(_ranges(max_requests))
    return {**arguments, "out_cache_loc": any_slots(draw(bulk()), total)}


@composite
def assign_extend_cache_locs(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw ranges of rows; padded requests share the padding row."""
    arguments, total = draw(_ranges(max_requests))
    for place in draw(st.lists(st.integers(0, 5), max_size=2)):
        arguments["req_pool_indices"][place : place + 1] = 0
    return {**arguments, "num_locations": total}


@composite
def remap_accepted_slots(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths, the slots of all nodes, and rows in which the longest path may end at the last position."""
    paths = draw(accepted(max_requests))
    counts = paths.num_accepted_tokens.tolist()
    committed = [draw(lengths()) for _ in counts]
    ends = [length + count for length, count in zip(committed, counts, strict=True)]
    rows = request_rows(draw(bulk()), len(counts), max(ends, default=0) + draw(slack()))
    slots = any_slots(paths.source, paths.num_entries)
    known = mapped(rows, committed, draw(st.sampled_from(LENGTH_DTYPES)))
    return {**known, "out_cache_loc": slots, "accept_index": paths.accept_index}


@made_once
@composite
def _ranges(draw: st.DrawFn, max_requests: int) -> tuple[dict[str, Any], int]:
    ranges = draw(batch(st.tuples(lengths(), _widths()), max_requests))
    position = max((start + width for start, width in ranges), default=0) + draw(slack())
    req_pool_indices, req_to_token = request_rows(draw(bulk()), len(ranges), position)
    arguments = {
        "req_pool_indices": req_pool_indices,
        "req_to_token": req_to_token,
        "start_offsets": np.array([start for start, _ in ranges], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "end_offsets": np.array([start + width for start, width in ranges], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
    }
    return arguments, sum(width for _, width in ranges)


@made_once
def _widths() -> st.SearchStrategy[int]:
    return mostly(st.integers(0, 8), st.sampled_from((32, 33, 64, 65, 129)), one_in=4)
