"""Strategies of the extend operations."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, bulk, mostly
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.topologies import BOUNDARY_LENGTHS, batch, lengths, num_nodes, request_rows, slack


@composite
def rotate_prefill_input_ids(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw prompts of at least one token, now and then longer than a block."""
    width = mostly(st.integers(1, 9), st.sampled_from(BOUNDARY_LENGTHS), one_in=4)
    requests = draw(batch(st.tuples(width, st.integers(0, 50), bulk()), max_requests))
    prompts = [source.integers(count, 0, 50) for count, _, source in requests]
    lens = np.array([count for count, _, _ in requests], dtype=np.int32)
    tails = np.array([tail for _, tail, _ in requests], dtype=np.int64)
    input_ids = np.concatenate([np.zeros(0, dtype=np.int64), *prompts])
    return {"input_ids": input_ids, "extend_lens": lens, "tail_tokens": tails}


@composite
def prepare_for_extend_to_fill_draft_kvcache(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw committed lengths and counts from one token to the longest path, which may be shorter than the tree."""
    count = draw(num_nodes())
    most = max(1, count - draw(slack()))
    tokens = st.one_of(st.integers(1, most), st.sampled_from((1, most)))
    requests = draw(batch(st.tuples(lengths(), tokens), max_requests))
    return {
        "seq_lens": np.array([length for length, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_accepted_tokens": np.array([tokens for _, tokens in requests], dtype=np.int32),
        "num_draft_tokens": count,
    }


@composite
def create_extend_after_decode_spec_info(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw output tokens of a few requests, as many as were accepted, and the lengths that count them."""
    requests = draw(batch(st.tuples(lengths(), _counts(), bulk()), max_requests))
    tokens = [source.integers(count, 0, 50) for _, count, source in requests]
    ends = [length + count for length, count, _ in requests]
    return {
        "input_ids": np.concatenate([np.zeros(0, dtype=np.int64), *tokens]),
        "seq_lens": np.array(ends, dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_accepted_tokens": np.array([count for _, count, _ in requests], dtype=np.int32),
    }


@composite
def generate_attn_arg_prefill(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows whose last positions are queries; the list of slots may have room to spare."""
    requests = draw(batch(st.tuples(lengths(), _counts()), max_requests))
    kv_lens = [length + count for length, count in requests]
    rows, req_to_token = request_rows(draw(bulk()), len(requests), max(kv_lens, default=0) + draw(slack()))
    for place in draw(st.lists(st.integers(0, 5), max_size=1)):
        rows[place : place + 1] = 0
    return {
        "req_pool_indices": rows,
        "req_to_token": req_to_token,
        "kv_lens": np.array(kv_lens, dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_accepted_tokens": np.array([count for _, count in requests], dtype=np.int32),
        "kv_lens_sum": sum(kv_lens) + draw(slack()),
    }


@made_once
def _counts() -> st.SearchStrategy[int]:
    return mostly(st.integers(1, 6), st.sampled_from((1, 31, 32, 33)), one_in=5)
