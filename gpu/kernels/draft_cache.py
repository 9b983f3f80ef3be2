"""Slots that the draft model writes and reads."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.ranges import count_ranges
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def beam_stride(length, NUM_STEPS: tl.constexpr, PAGE_SIZE: tl.constexpr):
    """Return how far the entries of two beams lie apart: whole pages; with PAGE_SIZE 1 as many as entries."""
    return (length % PAGE_SIZE + NUM_STEPS + PAGE_SIZE - 1) // PAGE_SIZE * PAGE_SIZE


@triton.jit
def load_slots(req_to_token_ptr, row, position, mask, rows):
    """Load slots of positions of rows, 0 for what lies outside; ``rows`` are their number, width and two strides."""
    num_rows, row_width, row_stride, column_stride = rows
    inside = mask & (row >= 0) & (row < num_rows) & (position >= 0) & (position < row_width)
    return tl.load(req_to_token_ptr + row * row_stride + position * column_stride, mask=inside, other=0)


@triton.jit
def load_pages(req_to_token_ptr, row, position, mask, rows, PAGE_SIZE: tl.constexpr):
    """Load the pages of positions of rows, rounded down as Python does."""
    slot = load_slots(req_to_token_ptr, row, position, mask, rows)
    page = slot // PAGE_SIZE
    return tl.where(page * PAGE_SIZE > slot, page - 1, page)


@triton.jit
def gather_entries(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    out_cache_loc_ptr,
    block,
    num_entries,
    rows,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gather a block of the flat slots."""
    entry = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry < num_entries
    request = entry // (TOPK * NUM_STEPS)
    length = tl.load(seq_lens_ptr + request, mask=live, other=0).to(tl.int64)
    beam, step = entry // NUM_STEPS % TOPK, entry % NUM_STEPS
    position = length + beam * beam_stride(length, NUM_STEPS, PAGE_SIZE) + step
    row = tl.load(req_pool_indices_ptr + request, mask=live, other=0)
    slot = load_slots(req_to_token_ptr, row, position, live, rows)
    tl.store(out_cache_loc_ptr + entry, slot.to(tl.int64), mask=live)


@triton.jit
def list_copies(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    source_slots_ptr,
    target_slots_ptr,
    block,
    num_requests,
    num_copies,
    rows,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    COPIES: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """List a block of the pairs that bring the end of each prefix onto the first pages of the other beams."""
    pair = block * COPIES + tl.arange(0, COPIES)
    request = tl.zeros([COPIES], dtype=tl.int32)
    begin = tl.zeros([COPIES], dtype=tl.int32)
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        length = tl.load(seq_lens_ptr + index, mask=is_request, other=0).to(tl.int64)
        count = tl.minimum(tl.maximum(length, 0) % PAGE_SIZE * (TOPK - 1), num_copies).to(tl.int32)
        num_past, past_count = count_ranges(pair, count, is_request, before)
        request += num_past
        begin += past_count
        before += tl.sum(count, 0)
    is_listed = pair < num_copies
    is_pair = is_listed & (request < num_requests)
    length = tl.load(seq_lens_ptr + request, mask=is_pair, other=0).to(tl.int64)
    last = tl.maximum(length % PAGE_SIZE, 1)
    beam, offset = (pair - begin) // last + 1, (pair - begin) % last
    source = length - last + offset
    target = source + beam * beam_stride(length, NUM_STEPS, PAGE_SIZE)
    row = tl.load(req_pool_indices_ptr + request, mask=is_pair, other=0)
    slot = load_slots(req_to_token_ptr, row, source, is_pair, rows)
    tl.store(source_slots_ptr + pair, slot.to(tl.int64), mask=is_listed)
    slot = load_slots(req_to_token_ptr, row, target, is_pair, rows)
    tl.store(target_slots_ptr + pair, slot.to(tl.int64), mask=is_listed)


@triton.jit(do_not_specialize=["num_entries", "entry_blocks", "num_requests", "num_copies"])
def _assign_draft_cache_locs_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    out_cache_loc_ptr,
    source_slots_ptr,
    target_slots_ptr,
    num_entries,
    entry_blocks,
    num_requests,
    num_copies,
    rows,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    HAS_COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
    COPIES: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Gather a block of the flat slots; the programs after those list a block of copies."""
    follow_previous()
    block = tl.program_id(0)
    if block < entry_blocks:
        gather_entries(
            req_pool_indices_ptr,
            req_to_token_ptr,
            seq_lens_ptr,
            out_cache_loc_ptr,
            block,
            num_entries,
            rows,
            TOPK,
            NUM_STEPS,
            PAGE_SIZE,
            BLOCK,
        )
    elif HAS_COPIES:
        list_copies(
            req_pool_indices_ptr,
            req_to_token_ptr,
            seq_lens_ptr,
            source_slots_ptr,
            target_slots_ptr,
            block - entry_blocks,
            num_requests,
            num_copies,
            rows,
            TOPK,
            NUM_STEPS,
            PAGE_SIZE,
            COPIES,
            REQUESTS,
        )


@triton.jit
def list_beam_keys(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    kv_indices_ptr,
    kv_indptr_ptr,
    share,
    num_requests,
    rows,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    OWN: tl.constexpr,
    REQUESTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """List the keys of ROWS pairs of step and beam of one request: the prefix is read once for all of them, in chunks.

    ``share`` is a request, a group of pairs, and of how many chunks which one comes first.
    """
    request, group, chunk, num_chunks = share
    num_rows, row_width, row_stride, column_stride = rows
    row = tl.load(req_pool_indices_ptr + request)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    slots_ptr = req_to_token_ptr + row * row_stride

    lane = tl.arange(0, REQUESTS)
    longest = tl.maximum(row_width - TOPK * NUM_STEPS, 0).to(tl.int64)
    lengths = tl.load(seq_lens_ptr + lane, mask=lane < num_requests, other=0).to(tl.int64)
    lengths = tl.minimum(tl.maximum(lengths, 0), longest)
    before = tl.sum(tl.where(lane < request, lengths, 0), axis=0)
    length = tl.sum(tl.where(lane == request, lengths, 0), axis=0)

    pair = group * ROWS + tl.arange(0, ROWS)
    live = pair < NUM_STEPS * TOPK
    step, beam = pair // TOPK, pair % TOPK
    own = step + 1
    width = num_requests.to(tl.int64) * TOPK * row_width
    start = TOPK * before + request * TOPK * own + beam * (length + own)
    target = step.to(tl.int64) * width + start

    for first in range(chunk * BLOCK, length, num_chunks * BLOCK):
        position = first + tl.arange(0, BLOCK).to(tl.int64)
        inside = position < length
        slots = tl.load(slots_ptr + position * column_stride, mask=inside, other=0)
        tl.store(
            kv_indices_ptr + target[:, None] + position[None, :], slots[None, :], mask=live[:, None] & inside[None, :]
        )
    if chunk == 0:
        place = tl.arange(0, OWN)
        position = length + (beam * beam_stride(length, NUM_STEPS, PAGE_SIZE))[:, None] + place[None, :]
        inside = live[:, None] & (place[None, :] < own[:, None]) & (position < row_width)
        slots = tl.load(slots_ptr + position * column_stride, mask=inside, other=0)
        tl.store(kv_indices_ptr + (target + length)[:, None] + place[None, :], slots, mask=inside)
        offset = step.to(tl.int64) * (num_requests * TOPK + 1) + request * TOPK + beam
        tl.store(kv_indptr_ptr + offset + 1, (start + length + own).to(tl.int32), mask=live)
        tl.store(kv_indptr_ptr + offset, tl.zeros([ROWS], dtype=tl.int32), mask=live & (beam == 0) & (request == 0))


@triton.jit
def _per_step_draft_out_cache_loc_kernel(
    out_cache_loc_ptr, step_cache_loc_ptr, num_entries, num_rows, stride, NUM_STEPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Write a block of the transposed slots."""
    follow_previous()
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
    PAGE_SIZE: tl.constexpr,
    OWN: tl.constexpr,
    REQUESTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Serve a group of pairs of one request, and a share of its chunks."""
    follow_previous()
    list_beam_keys(
        req_pool_indices_ptr,
        req_to_token_ptr,
        seq_lens_ptr,
        kv_indices_ptr,
        kv_indptr_ptr,
        (tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2), tl.num_programs(2)),
        num_requests,
        (num_rows, row_width, row_stride, column_stride),
        TOPK,
        NUM_STEPS,
        PAGE_SIZE,
        OWN,
        REQUESTS,
        ROWS,
        BLOCK,
    )


@triton.jit(do_not_specialize=["num_requests", "num_pages", "row_width"])
def _draft_decode_cascade_metadata_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    cache_seqlens_ptr,
    cu_seqlens_q_ptr,
    page_table_ptr,
    expand_ptrs,
    num_requests,
    num_pages,
    num_rows,
    row_width,
    strides,
    TOPK: tl.constexpr,
    NUM_STEPS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    NUM_OWN: tl.constexpr,
    BEAMS: tl.constexpr,
    STEPS: tl.constexpr,
    OWN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write a block of one request's prefix pages; the first program also writes its lengths and its beams' pages."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    expand_cache_seqlens_ptr, expand_page_table_ptr = expand_ptrs
    rows = (num_rows, row_width, strides[0], strides[1])
    row = tl.load(req_pool_indices_ptr + request)
    length = tl.load(seq_lens_ptr + request).to(tl.int64)
    last = length % PAGE_SIZE
    page = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    position = page * PAGE_SIZE
    is_whole = (page < num_pages) & (position < length - last)
    number = load_pages(req_to_token_ptr, row, position, is_whole, rows, PAGE_SIZE)
    tl.store(page_table_ptr + request * num_pages + page, number, mask=page < num_pages)
    if block == 0:
        tl.store(cache_seqlens_ptr + request, (length - last).to(tl.int32))
        tl.store(cu_seqlens_q_ptr + request + 1, ((request + 1) * TOPK).to(tl.int32))
        if request == 0:
            tl.store(cu_seqlens_q_ptr, 0)
        beam = tl.arange(0, BEAMS)[:, None]
        step = tl.arange(0, STEPS)[None, :]
        query = request * TOPK + beam
        keys = (last + step + 1).to(tl.int32)
        at = expand_cache_seqlens_ptr + step * (num_requests.to(tl.int64) * TOPK) + query
        tl.store(at, keys, mask=(beam < TOPK) & (step < NUM_STEPS))
        own = tl.arange(0, OWN)[None, :]
        stride = beam_stride(length, NUM_STEPS, PAGE_SIZE)
        first = length - last + beam * stride + own * PAGE_SIZE
        is_own = (beam < TOPK) & (own * PAGE_SIZE < stride)
        own_page = load_pages(req_to_token_ptr, row, first, is_own, rows, PAGE_SIZE)
        tl.store(expand_page_table_ptr + query * NUM_OWN + own, own_page, mask=(beam < TOPK) & (own < NUM_OWN))
