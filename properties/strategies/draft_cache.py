"""Strategies of the operations that find the draft model's slots."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, bulk
from specsim.properties.strategies.topologies import batch, lengths, request_rows, slack


@st.composite
def assign_draft_cache_locs(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows, the longest of which may be filled to its end."""
    topk, num_steps = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    committed = draw(batch(lengths(), max_requests))
    source = draw(bulk())
    width = max(committed, default=0) + topk * num_steps + draw(slack())
    req_pool_indices, req_to_token = request_rows(source, len(committed), width)
    for place in draw(st.lists(st.integers(0, 5), max_size=1)):
        req_pool_indices[place : place + 1] = 0
    return {
        "req_pool_indices": req_pool_indices,
        "req_to_token": req_to_token,
        "seq_lens": np.array(committed, dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "topk": topk,
        "num_steps": num_steps,
    }


@st.composite
def per_step_draft_out_cache_loc(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw one slot a request, beam and step."""
    topk, num_steps = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    num_requests = len(draw(batch(st.just(None), max_requests)))
    count = num_requests * topk * num_steps
    return {
        "out_cache_loc": draw(bulk()).order(count).astype(np.int64) + 1,
        "topk": topk,
        "num_steps": num_steps,
    }


@st.composite
def generate_draft_decode_kv_indices(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows and the committed lengths, one copy a beam."""
    arguments: Arguments = draw(assign_draft_cache_locs(max_requests))
    positions = np.repeat(arguments["seq_lens"], arguments["topk"]).astype(np.int64)
    return {**arguments, "positions": positions}
