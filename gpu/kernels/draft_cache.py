"""Slots that the draft model writes and reads."""

import triton
import triton.language as tl


@triton.jit
def _assign_draft_cache_locs_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    out_cache_loc_ptr,
    num_entries,
    num_rows,
    row_width,
    row_stride,
    column_stride,
    ENTRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gather a block of the flat slots; beams are contiguous, so entry e lies e positions past the length."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry < num_entries
    request = entry // ENTRIES
    row = tl.load(req_pool_indices_ptr + request, mask=live, other=0)
    position = tl.load(seq_lens_ptr + request, mask=live, other=0).to(tl.int64) + entry % ENTRIES
    inside = live & (row >= 0) & (row < num_rows) & (position >= 0) & (position < row_width)
    slot = tl.load(req_to_token_ptr + row * row_stride + position * column_stride, mask=inside, other=0)
    tl.store(out_cache_loc_ptr + entry, slot.to(tl.int64), mask=live)


@triton.jit
def _per_step_draft_out_cache_loc_kernel(
    out_cache_loc_ptr, step_cache_loc_ptr, num_entries, num_rows, stride, NUM_STEPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Write a block of the transposed slots."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry < num_entries
    source = entry % num_rows * NUM_STEPS + entry // num_rows
    slot = tl.load(out_cache_loc_ptr + source * stride, mask=live)
    tl.store(step_cache_loc_ptr + entry, slot, mask=live)


@triton.jit(do_not_specialize=["num_requests", "row_width"])
def _generate_draft_decode_kv_indices_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    kv_indices_ptr,
    kv_indptr_ptr,
    num_requests,
    num_rows,
    row_width,
    row_stride,
    column_stride,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    OWN: tl.constexpr,
    REQUESTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Serve ROWS pairs of step and beam of one request: the prefix is read once for all of them, in chunks."""
    request = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(2)
    row = tl.load(req_pool_indices_ptr + request)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    slots_ptr = req_to_token_ptr + row * row_stride

    lane = tl.arange(0, REQUESTS)
    longest = tl.maximum(row_width - TOPK * NUM_STEPS, 0).to(tl.int64)
    lengths = tl.load(seq_lens_ptr + lane, mask=lane < num_requests, other=0).to(tl.int64)
    lengths = tl.minimum(tl.maximum(lengths, 0), longest)
    before = tl.sum(tl.where(lane < request, lengths, 0), axis=0)
    length = tl.sum(tl.where(lane == request, lengths, 0), axis=0)

    pair = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    live = pair < NUM_STEPS * TOPK
    step, beam = pair // TOPK, pair % TOPK
    own = step + 1
    width = num_requests.to(tl.int64) * TOPK * row_width
    start = TOPK * before + request * TOPK * own + beam * (length + own)
    target = step.to(tl.int64) * width + start

    for first in range(chunk * BLOCK, length, tl.num_programs(2) * BLOCK):
        position = first + tl.arange(0, BLOCK).to(tl.int64)
        inside = position < length
        slots = tl.load(slots_ptr + position * column_stride, mask=inside, other=0)
        tl.store(
            kv_indices_ptr + target[:, None] + position[None, :], slots[None, :], mask=live[:, None] & inside[None, :]
        )
    if chunk == 0:
        place = tl.arange(0, OWN)
        position = length + (beam * NUM_STEPS)[:, None] + place[None, :]
        inside = live[:, None] & (place[None, :] < own[:, None]) & (position < row_width)
        slots = tl.load(slots_ptr + position * column_stride, mask=inside, other=0)
        tl.store(kv_indices_ptr + (target + length)[:, None] + place[None, :], slots, mask=inside)
        offset = step.to(tl.int64) * (num_requests * TOPK + 1) + request * TOPK + beam
        tl.store(kv_indptr_ptr + offset + 1, (start + length + own).to(tl.int32), mask=live)
        tl.store(kv_indptr_ptr + offset, tl.zeros([ROWS], dtype=tl.int32), mask=live & (beam == 0) & (request == 0))
