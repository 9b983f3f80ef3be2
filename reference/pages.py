"""Pages: what V1 gives back after a verify where a page holds several slots."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import ceil_to, count_tokens, floor_to
from specsim.operations.outputs import GetSrcTgtCacheLocOutputs, GetTargetCacheLocOutputs
from specsim.validation.checking import check_call


def align_evict_mask_to_page_size(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> None:
    """Keep every slot on the page that the kept ones reach, so that whole pages are freed.

    Parameters
    ----------
    seq_lens : int64 or int32 [request]
        Committed lengths before verify.
    evict_mask : bool [request*node]
        False where a slot is kept, at the accepted nodes; written in place.
    num_draft_tokens : int
        Nodes of a verify.
    page_size : int
        Slots a page.

    Raises
    ------
    SpecRejection
        MALFORMED_PATH: a request keeps no entry.

    Notes
    -----
    Source: semantics C.7. A row counts how many entries are kept, wherever they are: of a chain these are the first
    ones. With one slot a page such a row stays as it is.
    """
    axes = check_call("align_evict_mask_to_page_size", locals())
    num_nodes, page_size = axes["node"], axes["page_size"]
    for request in range(axes["request"]):
        first = request * num_nodes
        length = int(seq_lens[request])
        num_kept = num_nodes - int(evict_mask[first : first + num_nodes].sum())
        start = floor_to(length + num_kept - 1, page_size) - length
        for node in range(max(start, 0), min(start + page_size, num_nodes)):
            evict_mask[first + node] = False


def get_src_tgt_cache_loc(
    seq_lens: Array,
    out_cache_loc: Array,
    accept_indices: Array,
    num_accepted_drafts: Array,
    num_draft_tokens: int,
    page_size: int,
) -> GetSrcTgtCacheLocOutputs[Array]:
    """List the slots of accepted nodes, and count the slots after the last page that they need.

    Parameters
    ----------
    seq_lens : int64 or int32 [request]
        Committed lengths before verify.
    out_cache_loc : int64 [request*node]
        Slot that each node wrote to.
    accept_indices : int32 [token]
        Global numbers of the accepted nodes, request after request, each in path order.
    num_accepted_drafts : int32 [request]
        Accepted drafts of each request, the bonus token excluded.
    num_draft_tokens : int
        Nodes of a tree.
    page_size : int
        Slots a page.

    Returns
    -------
    source_slots : int64 [token]
        Slots that the accepted nodes wrote to.
    to_free_num_slots : int32 [request]
        How many of its last slots each request can give back.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the counts do not cut the nodes; NODE_OUT_OF_RANGE, MALFORMED_PATH: a segment is no path
        of its request.

    Notes
    -----
    Source: semantics C.7.
    """
    axes = check_call("get_src_tgt_cache_loc", locals())
    num_nodes, page_size = axes["node"], axes["page_size"]
    source_slots = np.zeros(axes["token"], dtype=np.int64)
    for place, node in enumerate(accept_indices):
        source_slots[place] = out_cache_loc[node]
    to_free_num_slots = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        length = int(seq_lens[request])
        needed = length + count_tokens(int(num_accepted_drafts[request]))
        keep_len = min(ceil_to(needed, page_size), length + num_nodes)
        to_free_num_slots[request] = length + num_nodes - keep_len
    return GetSrcTgtCacheLocOutputs(source_slots, to_free_num_slots)


def get_target_cache_loc(
    num_accepted_drafts: Array,
    to_free_num_slots: Array,
    out_cache_loc: Array,
    num_draft_tokens: int,
    num_target_slots: int,
    num_to_free_slots: int,
) -> GetTargetCacheLocOutputs[Array]:
    """List the slots at the front of each verify window, where accepted nodes go, and those that are freed.

    Parameters
    ----------
    num_accepted_drafts : int32 [request]
        Accepted drafts of each request, the bonus token excluded.
    to_free_num_slots : int32 [request]
        How many of its last slots each request gives back.
    out_cache_loc : int64 [request*node]
        Slot of each node: the verify window.
    num_draft_tokens : int
        Nodes of a tree.
    num_target_slots, num_to_free_slots : int
        Accepted nodes, and slots that are given back, of all requests together.

    Returns
    -------
    target_slots : int64 [token]
        The first slots of each window, one an accepted node.
    to_free_slots : int64 [location]
        The last slots of each window.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the counts do not add up; COUNT_OUT_OF_RANGE: a window is shorter than what a request
        keeps and gives back.

    Notes
    -----
    Source: semantics C.7. A slot that is given back may be a source of the move, so the move goes first.
    """
    axes = check_call("get_target_cache_loc", locals())
    num_nodes = axes["node"]
    target_slots = np.zeros(axes["num_target_slots"], dtype=np.int64)
    to_free_slots = np.zeros(axes["num_to_free_slots"], dtype=np.int64)
    num_kept = num_freed = 0
    for request in range(axes["request"]):
        window = out_cache_loc[request * num_nodes : (request + 1) * num_nodes]
        for place in range(count_tokens(int(num_accepted_drafts[request]))):
            target_slots[num_kept] = window[place]
            num_kept += 1
        for place in range(num_nodes - int(to_free_num_slots[request]), num_nodes):
            to_free_slots[num_freed] = window[place]
            num_freed += 1
    return GetTargetCacheLocOutputs(target_slots, to_free_slots)


def create_num_accepted_drafts_filter(num_accepted_drafts: Array, unfinished_index: Array, seq_lens: Array) -> Array:
    """Advance every length by its accepted tokens, and count them once more for unfinished requests alone.

    Parameters
    ----------
    num_accepted_drafts : int32 [request]
        Accepted drafts of each request, the bonus token excluded.
    unfinished_index : int64 [unfinished]
        Places in the batch of the requests that go on, in any order.
    seq_lens : int64 or int32 [request]
        Committed lengths before verify; written in place.

    Returns
    -------
    num_unfinished_tokens : int32 [request]
        Output tokens of a request that goes on, the bonus token included; 0 of one that has ended.

    Raises
    ------
    SpecRejection
        COUNT_OUT_OF_RANGE: a count or a length is negative, or no request has that place.

    Notes
    -----
    Source: semantics C.7. A second call would advance the lengths again.
    """
    axes = check_call("create_num_accepted_drafts_filter", locals())
    num_unfinished_tokens = np.zeros(axes["request"], dtype=np.int32)
    for request in unfinished_index:
        num_unfinished_tokens[request] = count_tokens(num_accepted_drafts[request])
    for request in range(axes["request"]):
        seq_lens[request] += count_tokens(num_accepted_drafts[request])
    return num_unfinished_tokens


def filter_finished_cache_loc(
    target_slots: Array, num_accepted_drafts: Array, num_unfinished_tokens: Array, num_locations: int
) -> Array:
    """Keep the slots of unfinished requests in a list that is cut by accepted tokens.

    Parameters
    ----------
    target_slots : int64 [token]
        Slots of the accepted tokens, request after request.
    num_accepted_drafts : int32 [request]
        Accepted drafts of each request, the bonus token excluded.
    num_unfinished_tokens : int32 [request]
        How many of its first slots each request keeps.
    num_locations : int
        Slots that are kept of all requests together.

    Returns
    -------
    out_cache_loc : int64 [location]
        The slots that are kept, request after request.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the counts do not cut the list, or do not add up to what is kept; COUNT_OUT_OF_RANGE: a
        request keeps more slots than it has.

    Notes
    -----
    Source: semantics C.7.
    """
    axes = check_call("filter_finished_cache_loc", locals())
    out_cache_loc = np.zeros(axes["num_locations"], dtype=np.int64)
    begin = used = 0
    for request in range(axes["request"]):
        for place in range(num_unfinished_tokens[request]):
            out_cache_loc[used] = target_slots[begin + place]
            used += 1
        begin += count_tokens(int(num_accepted_drafts[request]))
    return out_cache_loc
