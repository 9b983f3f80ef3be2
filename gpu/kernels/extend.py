"""Kernels of ``specsim.gpu.extend``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.ranges import count_ranges
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _rotate_prefill_input_ids_kernel(
    input_ids_ptr,
    extend_lens_ptr,
    tail_tokens_ptr,
    rotated_input_ids_ptr,
    num_tokens,
    num_requests,
    TOKENS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Shift a block of tokens, then put the tails of the prompts that end in it in their places."""
    follow_previous()
    first = tl.program_id(0) * TOKENS
    place = first + tl.arange(0, TOKENS)
    following = tl.load(input_ids_ptr + place + 1, mask=place + 1 < num_tokens, other=0)
    tl.store(rotated_input_ids_ptr + place, following, mask=place < num_tokens)
    # A tail is written over the first token of the next prompt, which another thread has stored.
    tl.debug_barrier()
    before = 0
    for start in range(0, num_requests, REQUESTS):
        request = start + tl.arange(0, REQUESTS)
        length = tl.load(extend_lens_ptr + request, mask=request < num_requests, other=0)
        length = tl.minimum(tl.maximum(length, 0), num_tokens)
        end = before + tl.cumsum(length, 0)
        is_inside = (length > 0) & (end > first) & (end <= tl.minimum(first + TOKENS, num_tokens))
        tail = tl.load(tail_tokens_ptr + request, mask=is_inside, other=0)
        tl.store(rotated_input_ids_ptr + end - 1, tail, mask=is_inside)
        before += tl.sum(length, 0)


@triton.jit
def _prepare_for_extend_to_fill_draft_kvcache_kernel(
    seq_lens_ptr,
    num_accepted_tokens_ptr,
    positions_ptr,
    forward_seq_lens_ptr,
    select_index_ptr,
    num_rows,
    num_nodes,
    BLOCK: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_row = row < num_rows
    request = row // num_nodes
    place = row % num_nodes
    length = tl.load(seq_lens_ptr + request, mask=is_row, other=0).to(tl.int64)
    tl.store(positions_ptr + row, length + place, mask=is_row)
    is_root = is_row & (place == 0)
    count = tl.load(num_accepted_tokens_ptr + request, mask=is_root, other=1).to(tl.int64)
    tl.store(forward_seq_lens_ptr + request, length + num_nodes, mask=is_root)
    tl.store(select_index_ptr + request, row + count - 1, mask=is_root)


@triton.jit
def _create_extend_after_decode_spec_info_kernel(
    input_ids_ptr,
    seq_lens_ptr,
    num_accepted_tokens_ptr,
    positions_ptr,
    bonus_tokens_ptr,
    num_tokens,
    num_requests,
    TOKENS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    place = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    request = tl.zeros([TOKENS], dtype=tl.int32)
    begin = tl.zeros([TOKENS], dtype=tl.int32)
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        count = tl.load(num_accepted_tokens_ptr + index, mask=is_request, other=0)
        count = tl.minimum(tl.maximum(count, 0), num_tokens)
        num_past, past_count = count_ranges(place, count, is_request, before)
        request += num_past
        begin += past_count
        before += tl.sum(count, 0)
    is_token = (place < num_tokens) & (request < num_requests)
    length = tl.load(seq_lens_ptr + request, mask=is_token, other=0).to(tl.int64)
    left = begin + tl.load(num_accepted_tokens_ptr + request, mask=is_token, other=0) - place
    tl.store(positions_ptr + place, length - left, mask=is_token)
    is_last = is_token & (left == 1)
    token = tl.load(input_ids_ptr + place, mask=is_last, other=0).to(tl.int32)
    tl.store(bonus_tokens_ptr + request, token, mask=is_last)


@triton.jit(do_not_specialize=["num_requests", "row_width", "num_locations"])
def _generate_attn_arg_prefill_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    kv_lens_ptr,
    num_accepted_tokens_ptr,
    qo_indptr_ptr,
    kv_indptr_ptr,
    kv_indices_ptr,
    num_requests,
    num_rows,
    row_width,
    num_locations,
    row_stride,
    position_stride,
    REQUESTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Serve one request, or the end of the offsets, and a share of the chunks of its keys."""
    follow_previous()
    request = tl.program_id(0)
    chunk = tl.program_id(1)
    num_queries = tl.zeros([REQUESTS], dtype=tl.int32)
    num_keys = tl.zeros([REQUESTS], dtype=tl.int64)
    for first in range(0, request, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        num_queries += tl.load(num_accepted_tokens_ptr + index, mask=index < request, other=0)
        num_keys += tl.load(kv_lens_ptr + index, mask=index < request, other=0).to(tl.int64)
    begin = tl.sum(num_keys, 0)
    if chunk == 0:
        tl.store(qo_indptr_ptr + request, tl.sum(num_queries, 0))
        tl.store(kv_indptr_ptr + request, begin.to(tl.int32))
    is_request = request < num_requests
    row = tl.load(req_pool_indices_ptr + request, mask=is_request, other=0)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    length = tl.load(kv_lens_ptr + request, mask=is_request, other=0).to(tl.int32)
    length = tl.minimum(length, row_width)
    for start in range(chunk * BLOCK, length, tl.num_programs(1) * BLOCK):
        position = start + tl.arange(0, BLOCK)
        inside = (position < length) & (begin + position >= 0) & (begin + position < num_locations)
        slot = tl.load(req_to_token_ptr + row * row_stride + position * position_stride, mask=inside, other=0)
        tl.store(kv_indices_ptr + begin + position, slot, mask=inside)
