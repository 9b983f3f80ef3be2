"""Kernels of ``specsim.gpu.dflash``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.thresholds import MOST, order_of, read_logits, value_of


@triton.jit(do_not_specialize=["mask_token"])
def _prepare_block_draft_kernel(
    bonus_tokens_ptr,
    seq_lens_ptr,
    input_ids_ptr,
    positions_ptr,
    mask_token,
    num_rows,
    num_nodes,
    BLOCK: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < num_rows
    request = row // num_nodes
    node = row % num_nodes
    root = tl.load(bonus_tokens_ptr + request, mask=is_row & (node == 0), other=0).to(tl.int64)
    tl.store(input_ids_ptr + row, tl.where(node == 0, root, tl.zeros_like(root) + mask_token), mask=is_row)
    length = tl.load(seq_lens_ptr + request, mask=is_row, other=0).to(tl.int64)
    tl.store(positions_ptr + row, length + node, mask=is_row)


@triton.jit(do_not_specialize=["num_nodes", "draft_window", "page_size", "num_columns"])
def _block_draft_metadata_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    window_starts_ptr,
    cache_seqlens_ptr,
    cu_seqlens_q_ptr,
    page_table_ptr,
    num_nodes,
    draft_window,
    page_size,
    num_rows,
    row_width,
    num_columns,
    row_stride,
    column_stride,
    BLOCK: tl.constexpr,
):
    """Write some columns of one request's table; the first block also writes its start, count and offset."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    row = tl.load(req_pool_indices_ptr + request)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    length = tl.load(seq_lens_ptr + request).to(tl.int64)
    start = length - tl.minimum(length, draft_window)
    start = start // page_size * page_size
    count = length + num_nodes - start
    column = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = column < num_columns
    is_entry = inside & (column < count) & (start + column >= 0) & (start + column < row_width)
    source = row * row_stride + (start + column) * column_stride
    slot = tl.load(req_to_token_ptr + source, mask=is_entry, other=0)
    tl.store(page_table_ptr + request * num_columns + column, slot, mask=inside)
    if block == 0:
        tl.store(window_starts_ptr + request, start)
        tl.store(cache_seqlens_ptr + request, count.to(tl.int32))
        tl.store(cu_seqlens_q_ptr + request + 1, ((request + 1) * num_nodes).to(tl.int32))
        if request == 0:
            tl.store(cu_seqlens_q_ptr, 0)


@triton.jit
def insert(first, second, third, fourth, value):
    """Take one number more a lane into the four largest of the lane, the largest first."""
    first, value = tl.maximum(first, value), tl.minimum(first, value)
    second, value = tl.maximum(second, value), tl.minimum(second, value)
    third, value = tl.maximum(third, value), tl.minimum(third, value)
    return first, second, third, tl.maximum(fourth, value)


@triton.jit
def count_listed(tops, bound):
    """Count, for each of several bounds, how many of the listed numbers reach it."""
    first, second, third, fourth = tops[0][:, None], tops[1][:, None], tops[2][:, None], tops[3][:, None]
    reached = (first >= bound[None, :]).to(tl.int32) + (second >= bound[None, :]).to(tl.int32)
    reached += (third >= bound[None, :]).to(tl.int32) + (fourth >= bound[None, :]).to(tl.int32)
    return tl.sum(reached, axis=0)


@triton.jit
def search_listed(tops, top_k, SHIFT: tl.constexpr, WAYS: tl.constexpr):
    """Return a bound that ``top_k`` of the listed numbers reach and as few more as there are, or -inf."""
    way = tl.arange(0, WAYS)
    low = order_of(tl.full([], float("-inf"), tl.float32), SHIFT)
    high = order_of(tl.max(tops[0], axis=0), SHIFT) + 1
    num_low = MOST
    while (high - low > 1) & (num_low > top_k):
        span = high - low
        count = count_listed(tops, value_of(low + span * (way + 1) // WAYS, SHIFT))
        is_reached = count >= top_k
        num_reached = tl.sum(is_reached.to(tl.int32), axis=0)
        num_low = tl.minimum(num_low, tl.min(tl.where(is_reached, count, MOST), axis=0))
        high = tl.where(num_reached < WAYS, low + span * (num_reached + 1) // WAYS, high)
        low += span * num_reached // WAYS
    return low


@triton.jit
def search_row(row_ptr, vocab, column_stride, low, top_k, SHIFT: tl.constexpr, WAYS: tl.constexpr, BLOCK: tl.constexpr):
    """Return the same of all logits of a row, from an order that as many reach; it is read once a round."""
    way = tl.arange(0, WAYS)
    high = order_of(tl.full([], float("inf"), tl.float32), SHIFT)
    num_low = MOST
    while (high - low > 1) & (num_low > top_k):
        span = high - low
        bound = value_of(low + span * (way + 1) // WAYS, SHIFT)
        count = tl.zeros([WAYS], dtype=tl.int32)
        for start in range(0, vocab, BLOCK):
            logit = read_logits(row_ptr, start + tl.arange(0, BLOCK), vocab, column_stride)
            count += tl.sum((logit[:, None] >= bound[None, :]).to(tl.int32), axis=0)
        is_reached = count >= top_k
        num_reached = tl.sum(is_reached.to(tl.int32), axis=0)
        num_low = tl.minimum(num_low, tl.min(tl.where(is_reached, count, MOST), axis=0))
        high = tl.where(num_reached < WAYS, low + span * (num_reached + 1) // WAYS, high)
        low += span * num_reached // WAYS
    return low


@triton.jit(do_not_specialize=["num_requests", "num_nodes"])
def _keep_top_k_exactly_kernel(
    logits_ptr,
    top_k_ptr,
    filtered_logits_ptr,
    num_requests,
    num_nodes,
    vocab,
    row_stride,
    column_stride,
    SHIFT: tl.constexpr,
    REQUESTS: tl.constexpr,
    WAYS: tl.constexpr,
    TRIES: tl.constexpr,
    LANES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Find the k-th largest logit of a row among the four largest of each lane, then write what is kept.

    No logit that a lane has left out is larger than its fourth: where none of these exceeds the bound that was found,
    the bound is that of the row. Elsewhere the row itself is searched, from that bound on.
    """
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, REQUESTS)
    asked = tl.load(top_k_ptr + lane, mask=lane < num_requests, other=0)
    top_k = tl.sum(tl.where(lane == row // num_nodes, asked, 0), axis=0)
    row_ptr = logits_ptr + row * row_stride
    kept_ptr = filtered_logits_ptr + row * vocab
    bound = tl.full([], float("-inf"), dtype=tl.float32)
    num_above = 0
    is_filtered = tl.max(asked, axis=0) < vocab
    keeps_ties = is_filtered == 0
    if is_filtered:
        first = tl.full([LANES], float("-inf"), dtype=tl.float32)
        second, third, fourth = first, first, first
        for start in range(0, vocab, BLOCK):
            for part in tl.static_range(BLOCK // LANES):
                token = start + part * LANES + tl.arange(0, LANES)
                logit = read_logits(row_ptr, token, vocab, column_stride)
                first, second, third, fourth = insert(first, second, third, fourth, logit)
        tops = (first, second, third, fourth)
        low = search_listed(tops, top_k, SHIFT, TRIES)
        bound = value_of(low, SHIFT)
        left_out = tl.where(vocab > 4 * LANES, tl.max(fourth, axis=0), float("-inf"))
        if left_out > bound:
            bound = value_of(search_row(row_ptr, vocab, column_stride, low, top_k, SHIFT, WAYS, BLOCK), SHIFT)
            above = tl.zeros([BLOCK], dtype=tl.int32)
            for start in range(0, vocab, BLOCK):
                logit = read_logits(row_ptr, start + tl.arange(0, BLOCK), vocab, column_stride)
                above += (logit > bound).to(tl.int32)
            num_above = tl.sum(above, axis=0)
        else:
            listed_above = (first > bound).to(tl.int32) + (second > bound).to(tl.int32)
            listed_above += (third > bound).to(tl.int32) + (fourth > bound).to(tl.int32)
            num_above = tl.sum(listed_above, axis=0)
            num_reached = tl.max(count_listed(tops, tl.zeros([TRIES], dtype=tl.float32) + bound), axis=0)
            keeps_ties = (num_reached == top_k) & (left_out < bound)
    if keeps_ties:
        for start in range(0, vocab, BLOCK):
            token = start + tl.arange(0, BLOCK)
            logit = read_logits(row_ptr, token, vocab, column_stride)
            tl.store(kept_ptr + token, tl.where(logit >= bound, logit, float("-inf")), mask=token < vocab)
    else:
        room = top_k - num_above
        for start in range(0, vocab, BLOCK):
            token = start + tl.arange(0, BLOCK)
            logit = read_logits(row_ptr, token, vocab, column_stride)
            is_tied = (logit == bound).to(tl.int32)
            is_kept = (logit > bound) | ((is_tied > 0) & (tl.cumsum(is_tied, axis=0) <= room))
            room -= tl.sum(is_tied, axis=0)
            tl.store(kept_ptr + token, tl.where(is_kept, logit, float("-inf")), mask=token < vocab)


@triton.jit
def _fill_block_tokens_kernel(
    candidates_ptr,
    num_accepted_drafts_ptr,
    bonus_tokens_ptr,
    out_tokens_ptr,
    num_rows,
    num_nodes,
    BLOCK: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < num_rows
    request = row // num_nodes
    node = row % num_nodes
    draft = tl.load(candidates_ptr + row + 1, mask=is_row & (node + 1 < num_nodes), other=0)
    count = tl.load(num_accepted_drafts_ptr + request, mask=is_row, other=0)
    bonus = tl.load(bonus_tokens_ptr + request, mask=is_row, other=0).to(tl.int64)
    tl.store(out_tokens_ptr + row, tl.where(node == count, bonus, draft), mask=is_row)
