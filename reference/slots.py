"""Slots: write and read ranges of the request-to-token map."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.validation.checking import check_call


def assign_req_to_token_pool(
    req_pool_indices: Array, req_to_token: Array, start_offsets: Array, end_offsets: Array, out_cache_loc: Array
) -> None:
    """Write flat slots into a range of each request's row.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request; rows are distinct.
    req_to_token : int32 [row, position]
        Slot of each position; written in place.
    start_offsets, end_offsets : int64 or int32 [request]
        Range of positions, end excluded; it may be empty.
    out_cache_loc : int64 [location]
        Slots, request after request.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT, DUPLICATE_ROW; INCONSISTENT_LENGTHS: the ranges do not use up the slots.

    Notes
    -----
    Source: semantics B.2.
    """
    axes = check_call("assign_req_to_token_pool", locals())
    used = 0
    for request in range(axes["request"]):
        for position in range(start_offsets[request], end_offsets[request]):
            req_to_token[req_pool_indices[request], position] = out_cache_loc[used]
            used += 1


def assign_extend_cache_locs(
    req_pool_indices: Array, req_to_token: Array, start_offsets: Array, end_offsets: Array, num_locations: int
) -> Array:
    """Read a range of each request's row into flat slots.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    start_offsets, end_offsets : int64 or int32 [request]
        Range of positions, end excluded; it may be empty.
    num_locations : int
        Positions of all ranges together.

    Returns
    -------
    out_cache_loc : int64 [location]
        Slots, request after request.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT; INCONSISTENT_LENGTHS: the ranges do not add up.

    Notes
    -----
    Source: semantics B.2.
    """
    axes = check_call("assign_extend_cache_locs", locals())
    num_locations = axes["num_locations"]
    out_cache_loc = np.zeros(num_locations, dtype=np.int64)
    used = 0
    for request in range(axes["request"]):
        for position in range(start_offsets[request], end_offsets[request]):
            out_cache_loc[used] = req_to_token[req_pool_indices[request], position]
            used += 1
    return out_cache_loc


def remap_accepted_slots(
    req_pool_indices: Array, req_to_token: Array, seq_lens: Array, out_cache_loc: Array, accept_index: Array
) -> Array:
    """Point each request's next positions at the slots of its accepted nodes, and mark the slots of the others.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request; rows are distinct.
    req_to_token : int32 [row, position]
        Slot of each position; written in place.
    seq_lens : int64 or int32 [request]
        Committed lengths before verify.
    out_cache_loc : int64 [request*node]
        Slot that each node wrote to.
    accept_index : int32 [request, draft+1]
        Accepted paths, padding -1.

    Returns
    -------
    evict_mask : bool [request*node]
        True where the node was not accepted: its slot can be freed.

    Raises
    ------
    SpecRejection
        MALFORMED_PATH, NODE_OUT_OF_RANGE, DUPLICATE_ROW; ROW_TOO_SHORT: the accepted positions leave the row.

    Notes
    -----
    No KV moves: the position follows the slot. Source: semantics C.7.
    """
    axes = check_call("remap_accepted_slots", locals())
    evict_mask = np.ones(len(out_cache_loc), dtype=np.bool_)
    for request in range(axes["request"]):
        for place, node in enumerate(accept_index[request]):
            if node < 0:
                break
            req_to_token[req_pool_indices[request], seq_lens[request] + place] = out_cache_loc[node]
            evict_mask[node] = False
    return evict_mask
