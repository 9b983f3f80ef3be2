"""Attention: what a verify forward hands to kernels of three kinds, for trees, and attention itself."""

import numpy as np

from specsim.conformance.arrays import Array
from specsim.operations.outputs import (
    IdleAttentionMetadataOutputs,
    TreeAttentionOutputs,
    VerifyCascadeMetadataOutputs,
    VerifyCustomMaskMetadataOutputs,
    VerifyExtendMetadataOutputs,
)
from specsim.validation.checking import check_call


def verify_cascade_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    tree_mask: Array,
    num_draft_tokens: int,
    max_prefix_len: int,
    page_size: int = 1,
) -> VerifyCascadeMetadataOutputs[Array]:
    """Lay out two passes: all nodes over the prefix, then every node alone over the nodes that it sees.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    tree_mask : bool [mask]
        Full mask, at least ``N*sum(L) + N*N*request`` entries.
    num_draft_tokens : int
        Nodes of a request, N.
    max_prefix_len : int
        Positions that the page table of the prefix covers, at least the longest length.
    page_size : int
        Slots a page of the first pass, which may end inside one.

    Returns
    -------
    cache_seqlens : int32 [request]
        Keys of the first pass: the committed lengths.
    cu_seqlens_q : int32 [request+1]
        Where each request's queries start.
    page_table : int32 [request, ceil(max_prefix_len/page_size)]
        Pages of the prefix; columns past the length hold what the row holds.
    expand_cache_seqlens : int32 [request*node]
        Keys of the second pass: how many nodes each node sees.
    expand_page_table : int32 [request*node, node]
        Slots of the nodes that are seen, in ascending order, then of the others; slots, whatever the page size.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the mask or the page table is too small; ROW_TOO_SHORT.

    Notes
    -----
    Source: semantics B.3.
    """
    axes = check_call("verify_cascade_metadata", locals())
    num_draft_tokens, max_prefix_len, page_size = (
        axes[name] for name in ("num_draft_tokens", "max_prefix_len", "page_size")
    )
    num_requests, num_nodes = axes["request"], num_draft_tokens
    cache_seqlens = np.zeros(num_requests, dtype=np.int32)
    cu_seqlens_q = np.zeros(num_requests + 1, dtype=np.int32)
    num_pages = -(-max_prefix_len // page_size)
    page_table = np.zeros((num_requests, num_pages), dtype=np.int32)
    expand_cache_seqlens = np.zeros(num_requests * num_nodes, dtype=np.int32)
    expand_page_table = np.zeros((num_requests * num_nodes, num_nodes), dtype=np.int32)
    start = 0
    for request in range(num_requests):
        length = int(seq_lens[request])
        row = req_to_token[req_pool_indices[request]]
        cache_seqlens[request] = length
        cu_seqlens_q[request + 1] = cu_seqlens_q[request] + num_nodes
        for page in range(num_pages):
            page_table[request, page] = row[page * page_size] // page_size
        for node in range(num_nodes):
            sees = tree_mask[start + length : start + length + num_nodes]
            start += length + num_nodes
            seen = [other for other in range(num_nodes) if sees[other]]
            unseen = [other for other in range(num_nodes) if not sees[other]]
            expand_cache_seqlens[request * num_nodes + node] = len(seen)
            for column, other in enumerate(seen + unseen):
                expand_page_table[request * num_nodes + node, column] = row[length + other]
    return VerifyCascadeMetadataOutputs(
        cache_seqlens, cu_seqlens_q, page_table, expand_cache_seqlens, expand_page_table
    )


def verify_custom_mask_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    tree_mask: Array,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> VerifyCustomMaskMetadataOutputs[Array]:
    """Lay out one pass over prefix and window under the full mask, which padded rows extend by visible entries.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    tree_mask : bool [mask]
        Full mask; of padded rows it may lack the end.
    num_draft_tokens : int
        Nodes of a request, N.
    seq_lens_sum : int
        Sum of the lengths, or a bound on it.

    Returns
    -------
    qo_indptr : int32 [request+1]
        Where each request's queries start.
    kv_indptr : int32 [request+1]
        Where each request's keys start: committed length plus N of them.
    kv_indices : int32 [seq_lens_sum+request*node]
        Slots of the keys; past the last offset undefined.
    custom_mask : bool [node*seq_lens_sum+node*node*request]
        The mask, continued by true; past the last request undefined.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the sum is too small; ROW_TOO_SHORT.

    Notes
    -----
    Source: semantics B.3.
    """
    axes = check_call("verify_custom_mask_metadata", locals())
    num_draft_tokens, seq_lens_sum = axes["num_draft_tokens"], axes["seq_lens_sum"]
    num_requests, num_nodes = axes["request"], num_draft_tokens
    qo_indptr = np.zeros(num_requests + 1, dtype=np.int32)
    kv_indptr = np.zeros(num_requests + 1, dtype=np.int32)
    kv_indices = np.zeros(seq_lens_sum + num_requests * num_nodes, dtype=np.int32)
    custom_mask = np.ones(num_nodes * seq_lens_sum + num_nodes * num_nodes * num_requests, dtype=np.bool_)
    for request in range(num_requests):
        num_keys = int(seq_lens[request]) + num_nodes
        qo_indptr[request + 1] = qo_indptr[request] + num_nodes
        kv_indptr[request + 1] = kv_indptr[request] + num_keys
        for key in range(num_keys):
            kv_indices[kv_indptr[request] + key] = req_to_token[req_pool_indices[request], key]
    for entry in range(min(len(tree_mask), len(custom_mask))):
        custom_mask[entry] = tree_mask[entry]
    return VerifyCustomMaskMetadataOutputs(qo_indptr, kv_indptr, kv_indices, custom_mask)


def verify_extend_metadata(
    req_pool_indices: Array, req_to_token: Array, seq_lens: Array, num_draft_tokens: int, seq_lens_sum: int
) -> VerifyExtendMetadataOutputs[Array]:
    """Lay out the keys of the prefix alone; the window's own keys go through the mask, whose offsets are given.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Committed lengths, before verify.
    num_draft_tokens : int
        Nodes of a request, N.
    seq_lens_sum : int
        Sum of the lengths, or a bound on it.

    Returns
    -------
    qo_indptr : int32 [request+1]
        Where each request's queries start.
    kv_indptr : int32 [request+1]
        Where each request's prefix starts.
    kv_indices : int32 [seq_lens_sum]
        Slots of the prefixes; past the last offset undefined.
    mask_indptr : int64 [request+1]
        Where each request's ``N*(L+N)`` mask entries start.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: the sum is too small; ROW_TOO_SHORT.

    Notes
    -----
    Source: semantics B.3.
    """
    axes = check_call("verify_extend_metadata", locals())
    num_draft_tokens, seq_lens_sum = axes["num_draft_tokens"], axes["seq_lens_sum"]
    num_requests = axes["request"]
    qo_indptr = np.zeros(num_requests + 1, dtype=np.int32)
    kv_indptr = np.zeros(num_requests + 1, dtype=np.int32)
    kv_indices = np.zeros(seq_lens_sum, dtype=np.int32)
    mask_indptr = np.zeros(num_requests + 1, dtype=np.int64)
    for request in range(num_requests):
        length = int(seq_lens[request])
        qo_indptr[request + 1] = qo_indptr[request] + num_draft_tokens
        kv_indptr[request + 1] = kv_indptr[request] + length
        mask_indptr[request + 1] = mask_indptr[request] + num_draft_tokens * (length + num_draft_tokens)
        for key in range(length):
            kv_indices[kv_indptr[request] + key] = req_to_token[req_pool_indices[request], key]
    return VerifyExtendMetadataOutputs(qo_indptr, kv_indptr, kv_indices, mask_indptr)


def idle_attention_metadata(
    req_pool_indices: Array,
    req_to_token: Array,
    seq_lens: Array,
    num_new_keys: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> IdleAttentionMetadataOutputs[Array]:
    """Lay out lengths and page table of dummy rows, one query each, without a tree.

    Parameters
    ----------
    req_pool_indices : int64 [request]
        Row of each request; that of padding is 0.
    req_to_token : int32 [row, position]
        Slot of each position.
    seq_lens : int64 or int32 [request]
        Lengths as they are padded.
    num_new_keys : int
        Keys that the query adds: 1 where a chain is drafted, 0 for a backend that drafts no step.
    max_seq_len_k : int
        Positions that the page table covers: the longest sequence, or a bound on it.
    page_size : int
        Slots a page.

    Returns
    -------
    cache_seqlens : int32 [request]
        Keys of each request.
    cu_seqlens_q : int32 [request+1]
        Where each request's query stands: its number.
    cu_seqlens_k : int32 [request+1]
        Where each request's keys start.
    page_table : int32 [request, ceil(max_seq_len_k/page_size)]
        Page of each page-sized run of positions; columns past the length hold what the row holds.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT.

    Notes
    -----
    Source: semantics D.10, sglang #26997.
    """
    axes = check_call("idle_attention_metadata", locals())
    num_requests, page_size = axes["request"], axes["page_size"]
    num_pages = -(-axes["max_seq_len_k"] // page_size)
    cache_seqlens = np.zeros(num_requests, dtype=np.int32)
    cu_seqlens_q = np.zeros(num_requests + 1, dtype=np.int32)
    cu_seqlens_k = np.zeros(num_requests + 1, dtype=np.int32)
    page_table = np.zeros((num_requests, num_pages), dtype=np.int32)
    for request in range(num_requests):
        cache_seqlens[request] = seq_lens[request] + axes["num_new_keys"]
        cu_seqlens_q[request + 1] = cu_seqlens_q[request] + 1
        cu_seqlens_k[request + 1] = cu_seqlens_k[request] + cache_seqlens[request]
        first_slots = req_to_token[req_pool_indices[request], ::page_size]
        page_table[request] = first_slots[:num_pages] // page_size
    return IdleAttentionMetadataOutputs(cache_seqlens, cu_seqlens_q, cu_seqlens_k, page_table)


def tree_attention(
    q: Array,
    k_buffer: Array,
    v_buffer: Array,
    cache_seqlens: Array,
    page_table: Array,
    tree_mask: Array,
    softmax_scale: Array | None,
    num_draft_tokens: int,
    page_size: int = 1,
) -> TreeAttentionOutputs[Array]:
    """Attend from every node to the prefix in pages and, of the window, to the nodes that it sees.

    Parameters
    ----------
    q : bfloat16 or float16 or float32 [request*node, head, head_dim]
        Queries; row ``b*N+i`` belongs to node i of request b.
    k_buffer, v_buffer : like q [slot, kv_head, head_dim]
        Pools of keys and values; query head h reads head ``h // (head/kv_head)``.
    cache_seqlens : int32 [request]
        Keys of each request: its committed length and N.
    page_table : int32 [request, page]
        Page of each page-sized run of positions, the window's included; columns past the length are not read.
    tree_mask : bool [request*node*node]
        Which nodes each node sees, itself among them: the mask of mode QLEN_ONLY.
    softmax_scale : float32 [1] or None
        What scores are multiplied by; None for ``head_dim**-0.5``.
    num_draft_tokens : int
        Nodes of a request, N: its last keys.
    page_size : int
        Slots a page.

    Returns
    -------
    attention : like q [request*node, head, head_dim]
        Mean of the values that a node sees, weighted by its softmax; 0 for a node that sees nothing.
    log_sum_exp : float32 [request*node, head]
        Logarithm of the sum of its weights, -inf for a node that sees nothing.

    Raises
    ------
    SpecRejection
        ROW_TOO_SHORT: the length is below N, or the table ends before it; SLOT_OUT_OF_RANGE, NOT_DIVISIBLE;
        INFINITE_LOGIT, NAN_SCORE: of a number that is read.

    Notes
    -----
    Source: semantics B.3b.
    """
    axes = check_call("tree_attention", locals())
    num_nodes, page_size, group = axes["node"], axes["page_size"], axes["head"] // axes["kv_head"]
    scale = axes["head_dim"] ** -0.5 if softmax_scale is None else float(softmax_scale[0])
    attention = np.zeros(q.shape, dtype=q.dtype)
    log_sum_exp = np.full(q.shape[:2], -np.inf, dtype=np.float32)
    for request in range(axes["request"]):
        length = int(cache_seqlens[request])
        slots = [int(page_table[request, at // page_size]) * page_size + at % page_size for at in range(length)]
        for node in range(num_nodes):
            row = request * num_nodes + node
            window = tree_mask[row * num_nodes : (row + 1) * num_nodes]
            seen = slots[: length - num_nodes]
            seen += [slot for slot, is_seen in zip(slots[length - num_nodes :], window, strict=True) if is_seen]
            if not seen:
                continue
            for head in range(axes["head"]):
                query = q[row, head].astype(np.float64)
                keys, values = (buffer[seen, head // group].astype(np.float64) for buffer in (k_buffer, v_buffer))
                scores = scale * (keys @ query)
                weights = np.exp(scores - scores.max())
                attention[row, head] = weights @ values / weights.sum()
                log_sum_exp[row, head] = scores.max() + np.log(weights.sum())
    return TreeAttentionOutputs(attention, log_sum_exp)
