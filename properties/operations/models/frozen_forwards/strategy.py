"""Strategy of the forward of a draft without KV: beams that all see what is committed, and nothing else."""

import numpy as np
from hypothesis import strategies as st

from specsim.hashing import MASK as WORD
from specsim.properties.composite import composite
from specsim.properties.operations.models.forwards.strategy import members, world
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, bulk


@composite
def frozen_kv_draft_forward(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw one new token a beam; the layers that are read may be any of the target's, one of them twice."""
    topk, num_layers, num_words = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(2, 4))
    requests = draw(members(st.just(0), max_requests))
    source = draw(bulk())
    made = world(requests, num_layers, 1, source)
    visible = [slots for slots in made.slots for _ in range(topk)]
    seen = [len(slots) for slots in visible]
    tail = source.integers(draw(st.sampled_from((0, 1, 7))), 0, len(made.kv_buffers[0]) - 1)
    return {
        "kv_buffers": made.kv_buffers,
        "input_ids": source.integers(len(visible), 0, 255),
        "hidden_states": source.integers((len(visible), num_words), 0, WORD),
        "positions": np.array([max(count - 1, 0) for count in seen], dtype=np.int64),
        "kv_indices": np.concatenate([np.zeros(0, dtype=np.int64), *visible, tail]).astype(np.int32),
        "kv_indptr": np.concatenate([[0], np.cumsum(seen)]).astype(np.int32),
        "target_layers": source.integers(num_layers, 0, num_words - 2),
        "depth": draw(st.integers(1, 4)),
    }
