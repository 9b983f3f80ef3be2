"""Compact: bring the accepted path to the front, in ids, hidden states and KV."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import path_width
from specsim.validation.checking import check_call


def gather_accept_tokens(predict: Array, accept_index: Array) -> Array:
    """Read the output tokens along each accepted path; entries past the path are 0.

    Parameters
    ----------
    predict : int32 [request*node]
        Output token that follows each accepted node.
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes, padding -1.

    Returns
    -------
    accept_tokens : int32 [request, draft+1]
        The accepted drafts and the bonus token, in order.

    Raises
    ------
    SpecRejection
        NODE_OUT_OF_RANGE, MALFORMED_PATH: a row is no path of its request.

    Notes
    -----
    Source: semantics 0.3, C.3.
    """
    axes = check_call("gather_accept_tokens", locals())
    accept_tokens = np.zeros(accept_index.shape, dtype=np.int32)
    for request in range(axes["request"]):
        for place, node in enumerate(accept_index[request]):
            if node >= 0:
                accept_tokens[request, place] = predict[node]
    return accept_tokens


def fill_bonus_tokens(accept_tokens: Array, num_accepted_tokens: Array) -> Array:
    """Pick the last output token of each request.

    Parameters
    ----------
    accept_tokens : int32 [request, draft+1]
        Output tokens; entries past the count are undefined.
    num_accepted_tokens : int32 [request]
        Output tokens of each request, the bonus token included.

    Returns
    -------
    bonus_tokens : int32 [request]
        Roots of the next trees.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a count is 0 or exceeds the row.

    Notes
    -----
    Source: semantics C.3.
    """
    axes = check_call("fill_bonus_tokens", locals())
    bonus_tokens = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        bonus_tokens[request] = accept_tokens[request, num_accepted_tokens[request] - 1]
    return bonus_tokens


def fill_accept_out_cache_loc(accept_index: Array, out_cache_loc: Array) -> Array:
    """List the slots of the accepted nodes, packed to the front; the tail is dump slot 0.

    Parameters
    ----------
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes, padding -1.
    out_cache_loc : int64 [request*node]
        Slot of each node.

    Returns
    -------
    source_slots : int64 [request*(draft+1)]
        Request after request, each in path order.

    Raises
    ------
    SpecRejection
        NODE_OUT_OF_RANGE, MALFORMED_PATH: a row is no path of its request.

    Notes
    -----
    Source: semantics C.4.
    """
    check_call("fill_accept_out_cache_loc", locals())
    source_slots = np.zeros(accept_index.size, dtype=np.int64)
    end = 0
    for node in accept_index.reshape(-1):
        if node >= 0:
            source_slots[end] = out_cache_loc[node]
            end += 1
    return source_slots


def fill_accept_target_cache_loc(num_accepted_tokens: Array, out_cache_loc: Array, num_steps: int) -> Array:
    """List the slots that the accepted nodes move to, packed like their sources.

    Parameters
    ----------
    num_accepted_tokens : int32 [request]
        Output tokens of each request, the bonus token included.
    out_cache_loc : int64 [request*node]
        Slot of each node: the verify window.
    num_steps : int
        Longest path, root excluded.

    Returns
    -------
    target_slots : int64 [request*(draft+1)]
        The first slots of each request's window; the tail is dump slot 0.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a count is 0 or exceeds a path.

    Notes
    -----
    Source: semantics C.4. The window is read, not the request row: the row may have a new owner by then.
    """
    axes = check_call("fill_accept_target_cache_loc", locals())
    num_steps = axes["num_steps"]
    target_slots = np.zeros(axes["request"] * path_width(num_steps), dtype=np.int64)
    end = 0
    for request in range(axes["request"]):
        for place in range(num_accepted_tokens[request]):
            target_slots[end] = out_cache_loc[request * axes["node"] + place]
            end += 1
    return target_slots


def compact_accepted_to_front(values: Array, accept_index: Array) -> Array:
    """Bring the entries of the accepted path to the front of each request's block.

    Parameters
    ----------
    values : any [request*node, ...]
        One entry a tree node.
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes, padding -1.

    Returns
    -------
    compacted : like values [request*node, ...]
        Entry j of a request is the value at its j-th accepted node; entries past the path are undefined.

    Raises
    ------
    SpecRejection
        NODE_OUT_OF_RANGE, MALFORMED_PATH: a row is no path of its request.

    Notes
    -----
    Source: semantics C.5, sglang #26997. Past the path this copy holds what engines hold there: global node 0 up to
    the row width, the old entry after it.
    """
    axes = check_call("compact_accepted_to_front", locals())
    compacted = values.copy()
    for request in range(axes["request"]):
        for place, node in enumerate(accept_index[request]):
            compacted[request * axes["node"] + place] = values[max(node, 0)]
    return compacted


def move_kv_cache(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
    """Copy slots of every buffer as if all sources were read before any target is written.

    Parameters
    ----------
    kv_buffers : list of any [slot, ...]
        Every buffer of every layer; written in place. An empty list is a pool without layers.
    target_slots : int64 [pair]
        Where each pair goes; only dump slot 0 may occur twice.
    source_slots : int64 [pair]
        Where each pair comes from.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE, DUPLICATE_SLOT.

    Notes
    -----
    Source: semantics C.6.
    """
    check_call("move_kv_cache", locals())
    for buffer in kv_buffers:
        read = [buffer[slot].copy() for slot in source_slots]
        for slot, entry in zip(target_slots, read, strict=True):
            buffer[slot] = entry
