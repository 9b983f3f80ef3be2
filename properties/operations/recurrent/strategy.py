"""Strategies of the recurrent operations."""

import numpy as np
from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.operations.compact.strategy import accepted
from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    VALUE_DTYPES,
    Arguments,
    Array,
    Bulk,
    bulk,
    mostly,
)
from specsim.properties.strategies.malformed.arguments import with_entry
from specsim.properties.strategies.malformed.structure import PATHS, one_less, one_more

FAR = 2**31 - 1
TRAILING = ((3,), (), (2, 3), (1,), (17,), (0,))


@composite
def get_recurrent_steps(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths, and lengths that come to a snapshot exactly, just before and just after it."""
    paths = draw(accepted(max_requests))
    least, source = paths.num_nodes, paths.source
    interval = draw(mostly(st.sampled_from((least, least, least + 1, 2 * least, 64 + least)), st.just(0), one_in=8))
    counts = paths.num_accepted_tokens.astype(np.int64)
    multiples = interval * source.integers(len(counts), 1, 3)
    before = np.where(source.integers(len(counts), 0, 2) == 0, 0, source.integers(len(counts), -1, 1))
    # NOTE: with k before a multiple, the node at place k-1 of the path is the last one in front of it.
    lengths = multiples - np.minimum(source.integers(len(counts), 0, least + 1), counts + before)
    far = draw(mostly(st.just(0), st.just(FAR - 4 * (64 + 2 * least)), one_in=10))
    far = far // interval * interval if interval else far
    return {
        "accept_index": paths.accept_index,
        "num_accepted_tokens": paths.num_accepted_tokens,
        "seq_lens": (np.maximum(lengths, 0) + far).astype(draw(st.sampled_from(LENGTH_DTYPES))),
        "num_draft_tokens": paths.num_nodes,
        "interval": interval,
    }


@composite
def commit_recurrent_states(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw several components of several layers, states in any order, and requests without state or snapshot."""
    num_requests = draw(st.integers(0, min(max_requests, 4)))
    num_nodes, source = draw(st.integers(1, 6)), draw(bulk())
    num_places = num_requests + draw(st.sampled_from((0, 0, 1)))
    num_states = 2 * num_requests + draw(st.integers(1, 4))
    forms = st.tuples(st.sampled_from(TRAILING), st.sampled_from(VALUE_DTYPES))
    components = draw(st.lists(forms, max_size=5 if num_requests else 2))
    slots = source.order(num_states - 1)[: 2 * num_requests] + 1
    state_slots, snapshot_slots = (half.astype(np.int64) for half in np.split(slots, 2))
    is_padding = source.integers(num_requests, 0, 7) == 0
    return {
        "state_buffers": [source.values((num_states, *shape), dtype) for shape, dtype in components],
        "step_buffers": [source.values((num_places, num_nodes, *shape), dtype) for shape, dtype in components],
        "state_slots": np.where(is_padding, 0, _some_absent(state_slots, source)),
        "commit_step": _some_absent(source.integers(num_requests, 0, num_nodes - 1), source),
        "snapshot_slots": _some_absent(snapshot_slots, source),
        "snapshot_step": np.where(
            source.integers(num_requests, 0, 1) == 0, -1, source.integers(num_requests, 0, num_nodes - 1)
        ),
    }


def _some_absent(numbers: Array, source: Bulk) -> Array:
    return np.where(source.integers(len(numbers), 0, 7) == 1, -1, numbers)


def state_written_twice(arguments: Arguments, where: int) -> Arguments:
    """A state is that of two requests, or its own snapshot."""
    name = ("state_slots", "snapshot_slots")[where % 2]
    return with_entry(arguments, name, where, arguments["state_slots"].max(initial=0))


FAULTS = {
    "get_recurrent_steps": (*PATHS, one_more("num_accepted_tokens"), one_less("num_accepted_tokens")),
    "commit_recurrent_states": (state_written_twice,),
}
