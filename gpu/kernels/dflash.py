"""Kernels of ``specsim.gpu.dflash``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.thresholds import MOST, order_of, read_logits


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
def bound_of(value, SHIFT: tl.constexpr):
    """The integer of ``order_of`` that stands for one number."""
    return tl.max(order_of(tl.full([1], value, tl.float32), SHIFT), axis=0)


@triton.jit
def read_orders(row_ptr, token, vocab, column_stride, SHIFT: tl.constexpr):
    """Logits of some tokens, and integers in their order; both zeros are one, and what is no token comes last."""
    logit = read_logits(row_ptr, token, vocab, column_stride)
    order = order_of(tl.where(logit == 0, 0.0, logit), SHIFT)
    return logit, tl.where(token < vocab, order, bound_of(float("-inf"), SHIFT) - 1)


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
    BLOCK: tl.constexpr,
):
    """Find the order of the k-th largest logit of a row by trying several bounds a round, then write what is kept."""
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, REQUESTS)
    asked = tl.load(top_k_ptr + lane, mask=lane < num_requests, other=0)
    top_k = tl.sum(tl.where(lane == row // num_nodes, asked, 0), axis=0)
    is_filtered = tl.max(asked, axis=0) < vocab
    row_ptr = logits_ptr + row * row_stride
    way = tl.arange(0, WAYS)
    low = bound_of(float("-inf"), SHIFT)
    high = bound_of(float("inf"), SHIFT)
    low = tl.where(is_filtered, low, low - 1)
    num_low = vocab
    while is_filtered & (high - low > 1) & (num_low > top_k):
        span = high - low
        bound = low + span * (way + 1) // WAYS
        count = tl.zeros([WAYS], dtype=tl.int32)
        for first in range(0, vocab, BLOCK):
            _, order = read_orders(row_ptr, first + tl.arange(0, BLOCK), vocab, column_stride, SHIFT)
            count += tl.sum((order[:, None] >= bound[None, :]).to(tl.int32), axis=0)
        is_reached = count >= top_k
        num_reached = tl.sum(is_reached.to(tl.int32), axis=0)
        num_low = tl.minimum(num_low, tl.min(tl.where(is_reached, count, MOST), axis=0))
        high = tl.where(num_reached < WAYS, low + span * (num_reached + 1) // WAYS, high)
        low += span * num_reached // WAYS
    above = tl.zeros([BLOCK], dtype=tl.int32)
    for first in range(0, vocab, BLOCK):
        _, order = read_orders(row_ptr, first + tl.arange(0, BLOCK), vocab, column_stride, SHIFT)
        above += (order > low).to(tl.int32)
    room = top_k - tl.sum(above, axis=0)
    for first in range(0, vocab, BLOCK):
        token = first + tl.arange(0, BLOCK)
        logit, order = read_orders(row_ptr, token, vocab, column_stride, SHIFT)
        is_tied = (order == low).to(tl.int32)
        is_kept = (order > low) | ((is_tied > 0) & (tl.cumsum(is_tied, axis=0) <= room))
        room -= tl.sum(is_tied, axis=0)
        kept = tl.where(is_kept, logit, float("-inf"))
        tl.store(filtered_logits_ptr + row * vocab + token, kept, mask=token < vocab)


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
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < num_rows
    request = row // num_nodes
    node = row % num_nodes
    draft = tl.load(candidates_ptr + row + 1, mask=is_row & (node + 1 < num_nodes), other=0)
    count = tl.load(num_accepted_drafts_ptr + request, mask=is_row, other=0)
    bonus = tl.load(bonus_tokens_ptr + request, mask=is_row, other=0).to(tl.int64)
    tl.store(out_tokens_ptr + row, tl.where(node == count, bonus, draft), mask=is_row)
