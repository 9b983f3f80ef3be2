"""Recurrent: which state of a verify is kept, and the copies that keep it."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import floor_to
from specsim.operations.outputs import GetRecurrentStepsOutputs
from specsim.validation.checking import check_call


def get_recurrent_steps(
    accept_index: Array, num_accepted_tokens: Array, seq_lens: Array, num_draft_tokens: int, interval: int
) -> GetRecurrentStepsOutputs[Array]:
    """Find the node whose state is committed, and the one whose state is kept for shared prefixes.

    Parameters
    ----------
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes, padding -1; cut where a request has ended.
    num_accepted_tokens : int32 [request]
        Output tokens of each request, the bonus token included.
    seq_lens : int64 or int32 [request]
        Committed lengths before the verify.
    num_draft_tokens : int
        Nodes of a tree, root included.
    interval : int
        Positions between two snapshots, at least as many as a tree has nodes; 0 for none at all.

    Returns
    -------
    commit_step : int64 [request]
        Number, inside its tree, of the last accepted node.
    snapshot_step : int64 [request]
        Number of the node after which the length is a multiple of the interval; -1 if no accepted node is one.

    Raises
    ------
    SpecRejection
        NODE_OUT_OF_RANGE, MALFORMED_PATH: a row is no path of its request. INCONSISTENT_LENGTHS: it has another length.
        SCALAR_OUT_OF_RANGE: snapshots lie closer than a verify reaches.

    Notes
    -----
    Source: semantics C.9.
    """
    axes = check_call("get_recurrent_steps", locals())
    interval = axes["interval"]
    commit_step = np.zeros(axes["request"], dtype=np.int64)
    snapshot_step = np.full(axes["request"], -1, dtype=np.int64)
    for request in range(axes["request"]):
        root = request * axes["node"]
        length, count = int(seq_lens[request]), int(num_accepted_tokens[request])
        commit_step[request] = accept_index[request, count - 1] - root
        if interval and length // interval != (length + count) // interval:
            crossing = floor_to(length + count, interval)
            snapshot_step[request] = accept_index[request, crossing - length - 1] - root
    return GetRecurrentStepsOutputs(commit_step, snapshot_step)


def commit_recurrent_states(
    state_buffers: Sequence[Array],
    step_buffers: Sequence[Array],
    state_slots: Array,
    commit_step: Array,
    snapshot_slots: Array,
    snapshot_step: Array,
) -> None:
    """Copy of every component the states after two nodes of each request, the last and that of a snapshot.

    Parameters
    ----------
    state_buffers : list of any [state, ...]
        The states that stay, of every component and layer; written in place. Dump slot 0 holds nothing.
    step_buffers : list of like state_buffers [place, node, ...]
        What the verify left after every node: request b of the batch is place b.
    state_slots : int64 [request]
        Where the state of each request stays; -1 is skipped.
    commit_step : int64 [request]
        The node whose state it is; -1 is skipped.
    snapshot_slots : int64 [request]
        Where the snapshot of each request goes; -1 is skipped.
    snapshot_step : int64 [request]
        The node whose state the snapshot is; -1 is skipped.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE, NODE_OUT_OF_RANGE, DUPLICATE_SLOT.

    Notes
    -----
    Source: semantics C.9.
    """
    axes = check_call("commit_recurrent_states", locals())
    for states, steps in zip(state_buffers, step_buffers, strict=True):
        for request in range(axes["request"]):
            for slot, step in (
                (state_slots[request], commit_step[request]),
                (snapshot_slots[request], snapshot_step[request]),
            ):
                if slot >= 0 and step >= 0:
                    states[slot] = steps[request, step]
