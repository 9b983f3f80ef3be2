"""Kernels of ``specsim.gpu.attention``: offsets and lists of keys for tree attention of three kinds."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def lengths_before(seq_lens_ptr, request, num_requests, REQUESTS: tl.constexpr):
    """Load the length of a request, and add up those before it, in int64."""
    lane = tl.arange(0, REQUESTS)
    lengths = tl.load(seq_lens_ptr + lane, mask=lane < num_requests, other=0).to(tl.int64)
    own = tl.sum(tl.where(lane == request, lengths, 0), 0)
    return own, tl.sum(tl.where(lane < request, lengths, 0), 0)


@triton.jit
def row_of(req_pool_indices_ptr, req_to_token_ptr, request, num_rows, row_stride):
    """Return where a request's row starts; row 0 for one that does not exist."""
    row = tl.load(req_pool_indices_ptr + request)
    return req_to_token_ptr + tl.where((row >= 0) & (row < num_rows), row, 0) * row_stride


@triton.jit(do_not_specialize=["num_nodes", "num_columns"])
def _cascade_prefix_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    cache_seqlens_ptr,
    cu_seqlens_q_ptr,
    page_table_ptr,
    num_rows,
    num_nodes,
    num_columns,
    row_stride,
    column_stride,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write a block of one request's pages; the first block also writes its length and offset."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    slots_ptr = row_of(req_pool_indices_ptr, req_to_token_ptr, request, num_rows, row_stride)
    column = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots_ptr + column * PAGE_SIZE * column_stride, mask=column < num_columns, other=0)
    page = slot // PAGE_SIZE
    page = tl.where(page * PAGE_SIZE > slot, page - 1, page)
    tl.store(page_table_ptr + request * num_columns + column, page, mask=column < num_columns)
    if block == 0:
        tl.store(cache_seqlens_ptr + request, tl.load(seq_lens_ptr + request).to(tl.int32))
        tl.store(cu_seqlens_q_ptr + request + 1, ((request + 1) * num_nodes).to(tl.int32))
        if request == 0:
            tl.store(cu_seqlens_q_ptr, 0)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_entries"])
def _cascade_expand_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    tree_mask_ptr,
    expand_cache_seqlens_ptr,
    expand_page_table_ptr,
    num_requests,
    num_rows,
    num_nodes,
    num_positions,
    num_entries,
    row_stride,
    column_stride,
    mask_stride,
    REQUESTS: tl.constexpr,
    ROWS: tl.constexpr,
    NODES: tl.constexpr,
):
    """List, for a block of one request's nodes, the slots of the nodes that each sees, then the others."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    slots_ptr = row_of(req_pool_indices_ptr, req_to_token_ptr, request, num_rows, row_stride)
    length, before = lengths_before(seq_lens_ptr, request, num_requests, REQUESTS)
    node = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    other = tl.arange(0, NODES)[None, :]
    inside = (node < num_nodes) & (other < num_nodes)
    start = num_nodes * (before + request * num_nodes) + node * (length + num_nodes) + length
    entry = start + other
    is_entry = inside & (entry >= 0) & (entry < num_entries)
    is_seen = tl.load(tree_mask_ptr + entry * mask_stride, mask=is_entry, other=0) != 0
    is_unseen = inside & (is_seen == 0)
    num_seen = tl.sum(is_seen.to(tl.int32), 1)[:, None]
    rank = tl.where(
        is_seen, tl.cumsum(is_seen.to(tl.int32), 1) - 1, num_seen + tl.cumsum(is_unseen.to(tl.int32), 1) - 1
    )
    position = length + other
    is_slot = inside & (position >= 0) & (position < num_positions)
    slot = tl.load(slots_ptr + position * column_stride, mask=is_slot, other=0)
    number = request * num_nodes + node
    tl.store(expand_page_table_ptr + number * num_nodes + rank, slot, mask=inside)
    tl.store(expand_cache_seqlens_ptr + number, num_seen, mask=node < num_nodes)


@triton.jit
def _continue_mask(tree_mask_ptr, custom_mask_ptr, first, num_given, num_visible, mask_stride, BLOCK: tl.constexpr):
    """Copy a block of the mask; what it does not reach is visible. Only a block at an end compares entry by entry."""
    # NOTE: as bytes, since a flag that is loaded is compared with zero.
    tree_mask_ptr = tree_mask_ptr.to(tl.pointer_type(tl.uint8), bitcast=True)
    custom_mask_ptr = custom_mask_ptr.to(tl.pointer_type(tl.uint8), bitcast=True)
    entry = first + tl.arange(0, BLOCK)
    if first + BLOCK <= tl.minimum(num_given, num_visible):
        tl.store(custom_mask_ptr + entry, tl.load(tree_mask_ptr + entry * mask_stride))
    else:
        is_visible = tl.load(tree_mask_ptr + entry * mask_stride, mask=entry < num_given, other=1)
        tl.store(custom_mask_ptr + entry, is_visible, mask=entry < num_visible)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_positions", "num_entries", "num_given", "num_visible"])
def _list_keys_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    tree_mask_ptr,
    qo_indptr_ptr,
    kv_indptr_ptr,
    kv_indices_ptr,
    mask_indptr_ptr,
    custom_mask_ptr,
    num_requests,
    num_rows,
    num_nodes,
    num_positions,
    num_entries,
    num_given,
    num_visible,
    strides,
    REQUESTS: tl.constexpr,
    BLOCK: tl.constexpr,
    MASK_BLOCK: tl.constexpr,
):
    """List the slots of one request's prefix in chunks, and write its offsets.

    With a mask the window comes after the prefix, and every program copies its part of the whole mask, of no request
    in particular.
    """
    follow_previous()
    row_stride, column_stride, mask_stride = strides
    request = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    slots_ptr = row_of(req_pool_indices_ptr, req_to_token_ptr, request, num_rows, row_stride)
    if custom_mask_ptr is not None:
        program = tl.program_id(0) * tl.num_programs(1) + chunk
        num_programs = tl.num_programs(0) * tl.num_programs(1)
        for block in range(program, tl.cdiv(num_visible, MASK_BLOCK), num_programs):
            first = tl.cast(block, tl.int64) * MASK_BLOCK
            _continue_mask(tree_mask_ptr, custom_mask_ptr, first, num_given, num_visible, mask_stride, MASK_BLOCK)
    length, before = lengths_before(seq_lens_ptr, request, num_requests, REQUESTS)
    num_keys, start = length, before
    if custom_mask_ptr is not None:
        num_keys += num_nodes
        start += request * num_nodes
    last = tl.minimum(num_keys, num_positions)
    for first in range(chunk * BLOCK, last, tl.num_programs(1) * BLOCK):
        key = first + tl.arange(0, BLOCK).to(tl.int64)
        inside = (key < last) & (start + key >= 0) & (start + key < num_entries)
        slot = tl.load(slots_ptr + key * column_stride, mask=inside, other=0)
        tl.store(kv_indices_ptr + start + key, slot, mask=inside)
    if chunk == 0:
        tl.store(qo_indptr_ptr + request + 1, ((request + 1) * num_nodes).to(tl.int32))
        tl.store(kv_indptr_ptr + request + 1, (start + num_keys).to(tl.int32))
        if mask_indptr_ptr is not None:
            end = num_nodes * (before + length + (request + 1) * num_nodes)
            tl.store(mask_indptr_ptr + request + 1, end)
        if request == 0:
            tl.store(qo_indptr_ptr, 0)
            tl.store(kv_indptr_ptr, 0)
            if mask_indptr_ptr is not None:
                tl.store(mask_indptr_ptr, 0)


@triton.jit(do_not_specialize=["num_requests", "num_new_keys", "num_pages", "page_size"])
def _idle_attention_metadata_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    cache_seqlens_ptr,
    cu_seqlens_q_ptr,
    cu_seqlens_k_ptr,
    page_table_ptr,
    num_requests,
    num_rows,
    num_new_keys,
    num_pages,
    page_size,
    row_stride,
    column_stride,
    REQUESTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write a block of one dummy row's pages; the first block also writes its lengths and offsets."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    slots_ptr = row_of(req_pool_indices_ptr, req_to_token_ptr, request, num_rows, row_stride)
    page = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots_ptr + page * page_size * column_stride, mask=page < num_pages, other=0)
    quotient = slot // page_size
    quotient = tl.where(quotient * page_size > slot, quotient - 1, quotient)
    tl.store(page_table_ptr + request * num_pages + page, quotient, mask=page < num_pages)
    if block == 0:
        length, before = lengths_before(seq_lens_ptr, request, num_requests, REQUESTS)
        end = before + length + (request + 1) * num_new_keys
        tl.store(cache_seqlens_ptr + request, (length + num_new_keys).to(tl.int32))
        tl.store(cu_seqlens_q_ptr + request + 1, (request + 1).to(tl.int32))
        tl.store(cu_seqlens_k_ptr + request + 1, end.to(tl.int32))
        if request == 0:
            tl.store(cu_seqlens_q_ptr, 0)
            tl.store(cu_seqlens_k_ptr, 0)
