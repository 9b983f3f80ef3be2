"""Strategies of what a draft that reads the target's KV is given."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, mostly
from specsim.properties.strategies.topologies import batch, lengths


@composite
def prepare_for_frozen_kv_draft(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw rows and lengths, some of them 0, of requests that may share the padding row."""
    requests = draw(batch(st.tuples(st.integers(0, 9), lengths()), max_requests))
    return {
        "req_pool_indices": np.array([row for row, _ in requests], dtype=np.int64),
        "seq_lens": np.array([length for _, length in requests], dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "topk": draw(mostly(st.integers(1, 5), st.sampled_from((8, 33)), one_in=5)),
    }


@composite
def select_last_verified(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw output tokens of a few requests, as many as were accepted."""
    counts = draw(batch(mostly(st.integers(1, 6), st.sampled_from((1, 31, 32, 33)), one_in=5), max_requests))
    return {"num_accepted_tokens": np.array(counts, dtype=np.int32)}
