"""Kernels of ``specsim.gpu.extend``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.ranges import count_ranges


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
    place = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    request = tl.zeros([TOKENS], dtype=tl.int32)
    begin = tl.zeros([TOKENS], dtype=tl.int32)
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        length = tl.load(extend_lens_ptr + index, mask=is_request, other=0)
        num_past, past_length = count_ranges(place, length, is_request, before)
        request += num_past
        begin += past_length
        before += tl.sum(length, 0)
    mask = (place < num_tokens) & (request < num_requests)
    is_last = mask & (place + 1 == begin + tl.load(extend_lens_ptr + request, mask=mask, other=0))
    tail = tl.load(tail_tokens_ptr + request, mask=is_last, other=0)
    following = tl.load(input_ids_ptr + place + 1, mask=mask & (place + 1 < num_tokens), other=0)
    tl.store(rotated_input_ids_ptr + place, tl.where(is_last, tail, following), mask=mask)


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
