"""Verify: attention metadata of the target forward, and acceptance."""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.counts import count_tokens, path_width
from specsim.operations.outputs import TargetVerifyMetadataOutputs, VerifyChainGreedyOutputs, VerifyTreeGreedyOutputs
from specsim.validation.checking import check_call


def target_verify_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    num_tokens: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> TargetVerifyMetadataOutputs[Array]:
    """Lay out lengths and page table of a verify forward; tokens per request are derived, not configured.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    num_tokens : int
        Tokens of the whole forward.
    max_seq_len_k : int
        Positions that the page table covers: the longest sequence, or a bound on it.
    page_size : int
        Slots a page.

    Returns
    -------
    cache_seqlens : int32 [request]
        Keys of each request: committed length plus tokens per request.
    cu_seqlens_q : int32 [request+1]
        Where each request's queries start.
    cu_seqlens_k : int32 [request+1]
        Where each request's keys start.
    page_table : int32 [request, ceil(max_seq_len_k/page_size)]
        Page of each page-sized run of positions; columns past the length hold what the row holds.

    Raises
    ------
    SpecRejection
        NOT_DIVISIBLE: tokens do not divide by requests; ROW_TOO_SHORT.

    Notes
    -----
    Source: semantics B.3, sglang #25681.
    """
    axes = check_call("target_verify_metadata", locals())
    num_queries = [axes["tokens_per_request"]] * axes["request"]
    sizes = axes["max_seq_len_k"], axes["page_size"]
    return TargetVerifyMetadataOutputs(*lay_out_verify(req_pool_indices, req_to_token, seq_lens, num_queries, *sizes))


def lay_out_verify(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    num_queries: Sequence[int],
    max_seq_len_k: int,
    page_size: int,
) -> tuple[Array, Array, Array, Array]:
    """Return lengths, query offsets, key offsets and page table of a forward, given the queries of each request."""
    num_requests, num_pages = len(num_queries), -(-max_seq_len_k // page_size)
    cache_seqlens = np.zeros(num_requests, dtype=np.int32)
    cu_seqlens_q = np.zeros(num_requests + 1, dtype=np.int32)
    cu_seqlens_k = np.zeros(num_requests + 1, dtype=np.int32)
    page_table = np.zeros((num_requests, num_pages), dtype=np.int32)
    for request in range(num_requests):
        cache_seqlens[request] = seq_lens[request] + num_queries[request]
        cu_seqlens_q[request + 1] = cu_seqlens_q[request] + num_queries[request]
        cu_seqlens_k[request + 1] = cu_seqlens_k[request] + cache_seqlens[request]
        first_slots = req_to_token[req_pool_indices[request], ::page_size]
        page_table[request] = first_slots[:num_pages] // page_size
    return cache_seqlens, cu_seqlens_q, cu_seqlens_k, page_table


def argmax_target_predict(logits: Array) -> Array:
    """Return the target's greedy choice of every row, ties by lower id.

    Parameters
    ----------
    logits : int64 or float32 [token, vocab]
        Prepared logits.

    Returns
    -------
    target_predict : int64 [token]
        Token ids.

    Notes
    -----
    Source: semantics B.6.
    """
    axes = check_call("argmax_target_predict", locals())
    target_predict = np.zeros(axes["token"], dtype=np.int64)
    for row in range(axes["token"]):
        # NOTE: of equal logits NumPy takes the first, which has the lowest id.
        target_predict[row] = logits[row].argmax()
    return target_predict


def verify_tree_greedy(
    candidates: Array,
    retrieve_index: Array,
    retrieve_next_token: Array,
    retrieve_next_sibling: Array,
    target_predict: Array,
    num_steps: int,
) -> VerifyTreeGreedyOutputs[Array]:
    """Walk each tree along the target's greedy choices and record the accepted path.

    Parameters
    ----------
    candidates : int64 [request, node]
        Token of each node.
    retrieve_index : int64 [request, node]
        Global number of each node.
    retrieve_next_token : int64 [request, node]
        First child, -1 if none.
    retrieve_next_sibling : int64 [request, node]
        Next sibling, -1 if none.
    target_predict : int64 [request, node]
        The target's choice after each node.
    num_steps : int
        Longest path, root excluded.

    Returns
    -------
    predict : int32 [request*node]
        Output token that follows each accepted node; 0 and undefined elsewhere.
    accept_index : int32 [request, draft+1]
        Global numbers of the accepted nodes in path order, padding -1.
    num_accepted_drafts : int32 [request]
        Accepted nodes without the root: the bonus token is not counted.

    Raises
    ------
    SpecRejection
        CYCLIC_TREE: links lead from a node back to itself; SHARED_NODE: two of them lead to one node;
        NODE_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.6. Of two siblings with equal tokens the one that is linked first wins.
    """
    axes = check_call("verify_tree_greedy", locals())
    num_steps = axes["num_steps"]
    num_requests = axes["request"]
    predict = np.zeros(num_requests * axes["node"], dtype=np.int32)
    accept_index = np.full((num_requests, path_width(num_steps)), -1, dtype=np.int32)
    num_accepted_drafts = np.zeros(num_requests, dtype=np.int32)
    for request in range(num_requests):
        last = 0
        accept_index[request, 0] = retrieve_index[request, 0]
        for _ in range(num_steps):
            node = retrieve_next_token[request, last]
            while node != -1 and candidates[request, node] != target_predict[request, last]:
                node = retrieve_next_sibling[request, node]
            if node == -1:
                break
            predict[retrieve_index[request, last]] = target_predict[request, last]
            num_accepted_drafts[request] += 1
            accept_index[request, num_accepted_drafts[request]] = retrieve_index[request, node]
            last = node
        predict[retrieve_index[request, last]] = target_predict[request, last]
    return VerifyTreeGreedyOutputs(predict, accept_index, num_accepted_drafts)


def verify_chain_greedy(
    draft_tokens: Array, cu_num_drafts: Array, target_predict: Array, max_num_drafts: int
) -> VerifyChainGreedyOutputs[Array]:
    """Accept ragged chains as long as each draft is the target's greedy choice.

    Parameters
    ----------
    draft_tokens : int64 [drafted]
        The drafts of all requests one after another; a -1 ends the draft of its request.
    cu_num_drafts : int32 [request+1]
        Where each request's drafts start.
    target_predict : int64 [drafted+request]
        Rows ``cu_num_drafts[b]+b`` and following: the target's choice of each token of request b, one more than drafts.
    max_num_drafts : int
        The longest draft that an output row holds.

    Returns
    -------
    output_tokens : int32 [request, draft+1]
        The accepted drafts and the target's choice after them, padding -1.
    num_accepted_drafts : int32 [request]
        Accepted drafts.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the offsets do not cut the drafts; COUNT_OUT_OF_RANGE: a draft is too long;
        TOKEN_OUT_OF_RANGE.

    Notes
    -----
    Source: semantics B.6. A chain is a tree without branches.
    """
    axes = check_call("verify_chain_greedy", locals())
    output_tokens = np.full((axes["request"], count_tokens(axes["max_num_drafts"])), -1, dtype=np.int32)
    num_accepted_drafts = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        first, last = int(cu_num_drafts[request]), int(cu_num_drafts[request + 1])
        count = 0
        while first + count < last and draft_tokens[first + count] == target_predict[first + request + count]:
            output_tokens[request, count] = draft_tokens[first + count]
            count += 1
        output_tokens[request, count] = target_predict[first + request + count]
        num_accepted_drafts[request] = count
    return VerifyChainGreedyOutputs(output_tokens, num_accepted_drafts)
