"""Pages: what V1 gives back after a verify where a page holds several slots."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import count_tokens
from specsim.validation.checking import check_call


def align_evict_mask_to_page_size(seq_lens: Array, evict_mask: Array, num_draft_tokens: int, page_size: int) -> None:
    """Keep every slot on the page of a chain's last accepted node, so that whole pages are freed.

    Parameters
    ----------
    seq_lens : int64 or int32 [request]
        Committed lengths before verify.
    evict_mask : bool [request*node]
        False at the accepted nodes, the first ones of each request; written in place.
    num_draft_tokens : int
        Nodes of a chain.
    page_size : int
        Slots a page.

    Raises
    ------
    SpecRejection
        MALFORMED_PATH: the accepted nodes are not the first ones.

    Notes
    -----
    Source: semantics C.7. With one slot a page nothing changes.
    """
    axes = check_call("align_evict_mask_to_page_size", locals())
    num_nodes, page_size = axes["node"], axes["page_size"]
    for request in range(axes["request"]):
        first = request * num_nodes
        length = int(seq_lens[request])
        num_kept = num_nodes - int(evict_mask[first : first + num_nodes].sum())
        start = (length + num_kept - 1) // page_size * page_size - length
        for node in range(max(start, 0), min(start + page_size, num_nodes)):
            evict_mask[first + node] = False


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
