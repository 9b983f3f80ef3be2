"""Kernels of ``specsim.gpu.compact`` on ids and node-indexed rows."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _gather_accept_tokens_kernel(
    predict_ptr,
    accept_index_ptr,
    accept_tokens_ptr,
    num_entries,
    num_rows,
    BLOCK: tl.constexpr,
):
    follow_previous()
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_entry = entry < num_entries
    node = tl.load(accept_index_ptr + entry, mask=is_entry, other=-1)
    token = tl.load(predict_ptr + node, mask=(node >= 0) & (node < num_rows), other=0)
    tl.store(accept_tokens_ptr + entry, token, mask=is_entry)


@triton.jit
def _fill_bonus_tokens_kernel(
    accept_tokens_ptr,
    num_accepted_tokens_ptr,
    bonus_tokens_ptr,
    num_requests,
    width,
    BLOCK: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_request = request < num_requests
    count = tl.load(num_accepted_tokens_ptr + request, mask=is_request, other=1)
    is_token = is_request & (count >= 1) & (count <= width)
    token = tl.load(accept_tokens_ptr + request * width + count - 1, mask=is_token, other=0)
    tl.store(bonus_tokens_ptr + request, token, mask=is_request)


@triton.jit
def _place(is_kept, before, entry, num_entries):
    """Place kept entries at the front in order, the others at the end: every place is taken once."""
    kept = is_kept.to(tl.int32)
    rank = before + tl.cumsum(kept, 0) - kept
    return tl.where(is_kept, rank, num_entries - 1 - (entry - rank))


@triton.jit
def _fill_accept_out_cache_loc_kernel(
    accept_index_ptr,
    out_cache_loc_ptr,
    source_slots_ptr,
    num_entries,
    num_slots,
    BLOCK: tl.constexpr,
):
    follow_previous()
    offset = tl.arange(0, BLOCK)
    first = tl.program_id(0) * BLOCK
    before = 0
    for start in range(0, first, BLOCK):
        node = tl.load(accept_index_ptr + start + offset)
        before += tl.sum((node >= 0).to(tl.int32), 0)
    entry = first + offset
    is_entry = entry < num_entries
    node = tl.load(accept_index_ptr + entry, mask=is_entry, other=-1)
    is_kept = node >= 0
    slot = tl.load(out_cache_loc_ptr + node, mask=is_kept & (node < num_slots), other=0)
    tl.store(source_slots_ptr + _place(is_kept, before, entry, num_entries), slot, mask=is_entry)


@triton.jit
def _fill_accept_target_cache_loc_kernel(
    num_accepted_tokens_ptr,
    out_cache_loc_ptr,
    target_slots_ptr,
    num_entries,
    width,
    num_nodes,
    BLOCK: tl.constexpr,
):
    follow_previous()
    offset = tl.arange(0, BLOCK)
    first = tl.program_id(0) * BLOCK
    before = 0
    for start in range(0, first, BLOCK):
        entry = start + offset
        count = tl.load(num_accepted_tokens_ptr + entry // width)
        before += tl.sum((entry % width < count).to(tl.int32), 0)
    entry = first + offset
    is_entry = entry < num_entries
    request = entry // width
    place = entry % width
    count = tl.load(num_accepted_tokens_ptr + request, mask=is_entry, other=0)
    is_kept = place < count
    slot = tl.load(out_cache_loc_ptr + request * num_nodes + place, mask=is_kept, other=0)
    tl.store(target_slots_ptr + _place(is_kept, before, entry, num_entries), slot, mask=is_entry)


@triton.jit
def _compact_accepted_to_front_kernel(
    values_ptr,
    accept_index_ptr,
    compacted_ptr,
    num_rows,
    num_nodes,
    width,
    num_words,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    is_row = row < num_rows
    place = row % num_nodes
    is_path = is_row & (place < width)
    node = tl.load(accept_index_ptr + (row // num_nodes) * width + place, mask=is_path, other=0)
    source = tl.where(is_path, tl.maximum(node, 0), row).to(tl.int64)
    mask = is_row[:, None] & (word < num_words)[None, :]
    is_source = mask & (source < num_rows)[:, None]
    entry = tl.load(values_ptr + source[:, None] * num_words + word[None, :], mask=is_source)
    tl.store(compacted_ptr + row.to(tl.int64)[:, None] * num_words + word[None, :], entry, mask=mask)
