"""Kernels of ``specsim.gpu.scheduled``: lengths, ragged windows, cuts and commits of scheduled verification."""

import triton
import triton.language as tl

from specsim.gpu.kernels.attention import lengths_before, row_of
from specsim.gpu.kernels.device.succession import follow_previous

AFTER_INFINITY = tl.constexpr(0x7F800001)
"""The bits of a float32 after those of infinity: no survival reaches them."""


@triton.jit
def bits_of(number):
    """Return bits that are ordered as float32 numbers of at least 0 are; -0 has those of 0."""
    return tl.maximum(number.to(tl.int32, bitcast=True), 0)


@triton.jit
def load_confidence(confidence_ptr, request, draft, most, strides):
    """Load one level's confidence of every request; a request that has no such draft has 0."""
    place = request.to(tl.int64) * strides[0] + draft.to(tl.int64) * strides[1]
    return tl.load(confidence_ptr + place, mask=draft < most, other=0.0)


@triton.jit
def count_reaching(confidence_ptr, request, most, num_levels, bound, strides):
    """Count the drafts of each request whose survival reaches a bound.

    Survivals are multiplied level by level every time, as float32 rounds otherwise in another order.
    """
    survival = tl.zeros_like(most).to(tl.float32) + 1.0
    count = tl.zeros_like(most)
    for level in range(0, num_levels):
        draft = tl.zeros_like(most) + level
        survival *= load_confidence(confidence_ptr, request, draft, most, strides)
        count += ((draft < most) & (bits_of(survival) >= bound)).to(tl.int32)
    return count


@triton.jit(do_not_specialize=["num_requests", "num_levels", "verify_token_budget", "min_verify_len", "max_verify_len"])
def _schedule_verify_lens_kernel(
    confidence_ptr,
    num_drafts_ptr,
    survival_eps_ptr,
    verify_lens_ptr,
    num_requests,
    num_levels,
    verify_token_budget,
    min_verify_len,
    max_verify_len,
    strides,
    EPS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Find the survival that no more drafts reach than the budget admits; those just below it go by level and request.

    One program sees all requests, a lane each.
    """
    follow_previous()
    request = tl.arange(0, REQUESTS)
    is_request = request < num_requests
    most = tl.zeros([REQUESTS], dtype=tl.int32) + tl.minimum(num_levels, max_verify_len)
    if num_drafts_ptr is not None:
        most = tl.minimum(most, tl.load(num_drafts_ptr + request, mask=is_request, other=0))
    most = tl.where(is_request, most, 0)
    eps = tl.load(survival_eps_ptr) if survival_eps_ptr is not None else tl.full([], EPS, dtype=tl.float32)
    low = bits_of(eps)
    num_admitted = count_reaching(confidence_ptr, request, most, num_levels, low, strides)
    if tl.sum(num_admitted, axis=0) > verify_token_budget:
        high = tl.zeros_like(low) + AFTER_INFINITY
        num_high = tl.zeros_like(low)
        while (high - low > 1) & (num_high < verify_token_budget):
            middle = low + (high - low) // 2
            count = tl.sum(count_reaching(confidence_ptr, request, most, num_levels, middle, strides), axis=0)
            is_too_many = count > verify_token_budget
            low = tl.where(is_too_many, middle, low)
            high = tl.where(is_too_many, high, middle)
            num_high = tl.where(is_too_many, num_high, count)
        num_admitted = count_reaching(confidence_ptr, request, most, num_levels, high, strides)
        left = verify_token_budget - num_high
        survival = tl.zeros([REQUESTS], dtype=tl.float32) + 1.0
        for level in range(0, num_levels):
            draft = tl.zeros_like(most) + level
            survival *= load_confidence(confidence_ptr, request, draft, most, strides)
            is_tied = ((draft < most) & (bits_of(survival) == high - 1)).to(tl.int32)
            num_admitted += ((is_tied > 0) & (tl.cumsum(is_tied, axis=0) <= left)).to(tl.int32)
            left -= tl.sum(is_tied, axis=0)
    length = tl.minimum(tl.maximum(min_verify_len + num_admitted, tl.maximum(min_verify_len, 1)), max_verify_len)
    tl.store(verify_lens_ptr + request, length, mask=is_request)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_tokens"])
def _ragged_verify_window_kernel(
    candidates_ptr,
    verify_lens_ptr,
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    qo_indptr_ptr,
    input_ids_ptr,
    positions_ptr,
    out_cache_loc_ptr,
    window_index_ptr,
    num_requests,
    num_nodes,
    num_tokens,
    num_rows,
    row_width,
    row_stride,
    column_stride,
    REQUESTS: tl.constexpr,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the rows of one request and its share of the padding, which needs a program even without requests."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    num_own, start = lengths_before(verify_lens_ptr, request, num_requests, REQUESTS)
    node = tl.arange(0, NODES)
    lane = start + node
    if request < num_requests:
        slots_ptr = row_of(req_pool_indices_ptr, req_to_token_ptr, request, num_rows, row_stride)
        position = tl.load(seq_lens_ptr + request).to(tl.int64) + node
        is_own = (node < num_own) & (node < num_nodes) & (lane >= 0) & (lane < num_tokens)
        number = request * num_nodes + node
        token = tl.load(candidates_ptr + number, mask=is_own, other=0)
        is_slot = is_own & (position >= 0) & (position < row_width)
        slot = tl.load(slots_ptr + position * column_stride, mask=is_slot, other=0)
        tl.store(input_ids_ptr + lane, token, mask=is_own)
        tl.store(positions_ptr + lane, position, mask=is_own)
        tl.store(out_cache_loc_ptr + lane, slot.to(tl.int64), mask=is_own)
        tl.store(window_index_ptr + lane, number, mask=is_own)
        tl.store(qo_indptr_ptr + request + 1, (start + num_own).to(tl.int32))
    if request == 0:
        tl.store(qo_indptr_ptr, 0)
    last, before = lengths_before(verify_lens_ptr, num_requests - 1, num_requests, REQUESTS)
    padding = tl.maximum(last + before, 0) + request * BLOCK
    nothing = tl.zeros([BLOCK], dtype=tl.int64)
    for first in range(padding, num_tokens, tl.num_programs(0) * BLOCK):
        place = first + tl.arange(0, BLOCK)
        tl.store(input_ids_ptr + place, nothing, mask=place < num_tokens)
        tl.store(positions_ptr + place, nothing, mask=place < num_tokens)
        tl.store(out_cache_loc_ptr + place, nothing, mask=place < num_tokens)
        tl.store(window_index_ptr + place, nothing - 1, mask=place < num_tokens)


@triton.jit(do_not_specialize=["num_requests", "num_padded", "num_tokens", "max_verify_len"])
def _pad_verify_lens_to_bucket_kernel(
    verify_lens_ptr,
    padded_verify_lens_ptr,
    num_requests,
    num_padded,
    num_tokens,
    max_verify_len,
    REQUESTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    last, before = lengths_before(verify_lens_ptr, num_requests - 1, num_requests, REQUESTS)
    left = num_tokens - last - before
    num_padding = num_padded - num_requests
    share = left // tl.maximum(num_padding, 1)
    padding = share + ((request - num_requests) < left - share * num_padding).to(tl.int64)
    length = tl.load(verify_lens_ptr + request, mask=request < num_requests, other=0).to(tl.int64)
    length += tl.where((num_padding == 0) & (request == num_requests - 1), left, 0)
    length = tl.minimum(tl.where(request < num_requests, length, padding), max_verify_len)
    tl.store(padded_verify_lens_ptr + request, length.to(tl.int32), mask=request < num_padded)


@triton.jit(do_not_specialize=["num_requests", "num_nodes", "num_tokens"])
def _scatter_compact_to_strided_kernel(
    values_ptr,
    verify_lens_ptr,
    strided_ptr,
    num_requests,
    num_nodes,
    num_tokens,
    num_words,
    REQUESTS: tl.constexpr,
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Copy some words of some rows of one request, or write 0 where a row was not verified."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    node = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(2) * WORDS + tl.arange(0, WORDS)
    num_own, start = lengths_before(verify_lens_ptr, request, num_requests, REQUESTS)
    source = start + node
    is_row = (node < num_own) & (source >= 0) & (source < num_tokens)
    inside = (node < num_nodes)[:, None] & (word < num_words)[None, :]
    entry = tl.load(values_ptr + source[:, None] * num_words + word[None, :], mask=inside & is_row[:, None], other=0)
    target = request * num_nodes + node
    tl.store(strided_ptr + target[:, None] * num_words + word[None, :], entry, mask=inside)


@triton.jit(do_not_specialize=["num_requests", "num_nodes"])
def _cap_accepted_drafts_kernel(
    candidates_ptr,
    num_accepted_drafts_ptr,
    bonus_tokens_ptr,
    verify_lens_ptr,
    num_kept_drafts_ptr,
    cut_tokens_ptr,
    cap_trim_lens_ptr,
    num_requests,
    num_nodes,
    IS_COMPACT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_request = request < num_requests
    accepted = tl.load(num_accepted_drafts_ptr + request, mask=is_request, other=0)
    kept = tl.minimum(accepted, tl.load(verify_lens_ptr + request, mask=is_request, other=1) - 1)
    is_cut = is_request & (kept < accepted)
    is_draft = is_cut & (kept >= -1) & (kept + 1 < num_nodes)
    draft = tl.load(candidates_ptr + request.to(tl.int64) * num_nodes + kept + 1, mask=is_draft, other=0)
    bonus = tl.load(bonus_tokens_ptr + request, mask=is_request, other=0).to(tl.int64)
    trim = tl.zeros_like(kept) if IS_COMPACT else accepted - kept
    tl.store(num_kept_drafts_ptr + request, kept, mask=is_request)
    tl.store(cut_tokens_ptr + request, tl.where(is_cut, draft, bonus), mask=is_request)
    tl.store(cap_trim_lens_ptr + request, trim, mask=is_request)


@triton.jit(do_not_specialize=["num_entries", "num_nodes", "ring_size", "num_places"])
def _commit_inject_layout_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    commit_lens_ptr,
    verify_lens_ptr,
    slot_map_ptr,
    inject_loc_ptr,
    positions_ptr,
    num_entries,
    num_nodes,
    num_rows,
    row_width,
    row_stride,
    column_stride,
    ring_size,
    num_places,
    HAS_RING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    follow_previous()
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_entry = entry < num_entries
    request = entry // num_nodes
    node = entry % num_nodes
    committed = tl.load(commit_lens_ptr + request, mask=is_entry, other=0)
    if verify_lens_ptr is not None:
        committed = tl.minimum(committed, tl.load(verify_lens_ptr + request, mask=is_entry, other=0))
    position = tl.load(seq_lens_ptr + request, mask=is_entry, other=0).to(tl.int64) + node
    row = tl.load(req_pool_indices_ptr + request, mask=is_entry, other=0)
    is_committed = is_entry & (node < committed)
    if HAS_RING:
        place = row * ring_size + position % ring_size
    else:
        is_read = is_committed & (row >= 0) & (row < num_rows) & (position >= 0) & (position < row_width)
        place = tl.load(req_to_token_ptr + row * row_stride + position * column_stride, mask=is_read, other=0)
        if slot_map_ptr is not None:
            is_slot = is_read & (place >= 0) & (place < num_places)
            place = tl.load(slot_map_ptr + place, mask=is_slot, other=0)
    tl.store(inject_loc_ptr + entry, tl.where(is_committed, place.to(tl.int32), -1), mask=is_entry)
    tl.store(positions_ptr + entry, position, mask=is_entry)
