"""Strategies of the extend operations."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, bulk, mostly
from specsim.properties.strategies.topologies import BOUNDARY_LENGTHS, batch, lengths, num_nodes


@st.composite
def rotate_prefill_input_ids(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw prompts of at least one token, now and then longer than a block."""
    width = mostly(st.integers(1, 9), st.sampled_from(BOUNDARY_LENGTHS), one_in=4)
    requests = draw(batch(st.tuples(width, st.integers(0, 50), bulk()), max_requests))
    prompts = [source.integers(count, 0, 50) for count, _, source in requests]
    return {
        "input_ids": np.concatenate([np.zeros(0, dtype=np.int64), *prompts]),
        "extend_lens": np.array([count for count, _, _ in requests], dtype=np.int32),
        "tail_tokens": np.array([tail for _, tail, _ in requests], dtype=np.int64),
    }


@st.composite
def prepare_for_extend_to_fill_draft_kvcache(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw committed lengths and counts from one token to the whole width."""
    count = draw(num_nodes())
    tokens = st.one_of(st.integers(1, count), st.sampled_from((1, count)))
    requests = draw(batch(st.tuples(lengths(), tokens), max_requests))
    return {
        "seq_lens": np.array([length for length, _ in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_accepted_tokens": np.array([tokens for _, tokens in requests], dtype=np.int32),
        "num_draft_tokens": count,
    }
