"""Kernels that workers launch in the place of several operations."""

import triton
import triton.language as tl

from specsim import counts

BONUS = tl.constexpr(counts.BONUS_TOKENS_PER_VERIFY)


@triton.jit
def _copy_rows_kernel(
    req_pool_indices_ptr,
    field_ptrs,
    entry_ptrs,
    widths,
    num_requests,
    num_rows,
    NUM_FIELDS: tl.constexpr,
    GATHERS: tl.constexpr,
    REQUESTS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Copy the words of a block of requests between their rows and their places, of every field in turn."""
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    is_request = request < num_requests
    row = tl.load(req_pool_indices_ptr + request, mask=is_request, other=0)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    # Requests that pad a batch read row 0 and leave it as it is.
    is_kept = is_request if GATHERS else is_request & (row > 0)
    for field in tl.static_range(NUM_FIELDS):
        mask = is_kept[:, None] & (word < widths[field])[None, :]
        row_ptr = field_ptrs[field] + row[:, None] * widths[field] + word[None, :]
        place_ptr = entry_ptrs[field] + request[:, None] * widths[field] + word[None, :]
        if GATHERS:
            tl.store(place_ptr, tl.load(row_ptr, mask=mask), mask=mask)
        else:
            tl.store(row_ptr, tl.load(place_ptr, mask=mask), mask=mask)


@triton.jit
def _finish_paths_kernel(
    predict_ptr,
    accept_index_ptr,
    num_accepted_drafts_ptr,
    out_cache_loc_ptr,
    num_accepted_tokens_ptr,
    bonus_tokens_ptr,
    source_slots_ptr,
    target_slots_ptr,
    num_requests,
    num_nodes,
    width,
    REQUESTS: tl.constexpr,
    PLACES: tl.constexpr,
):
    """Finish the paths of a block of requests, after a count of what the requests before it accept."""
    offset = tl.arange(0, REQUESTS)
    place = tl.arange(0, PLACES)
    first = tl.program_id(0) * REQUESTS
    before = 0
    for start in range(0, first, REQUESTS):
        before += tl.sum(tl.load(num_accepted_drafts_ptr + start + offset) + BONUS, 0)
    request = first + offset
    is_request = request < num_requests
    count = tl.load(num_accepted_drafts_ptr + request, mask=is_request, other=0) + BONUS
    count = tl.where(is_request, tl.minimum(count, width), 0)
    tl.store(num_accepted_tokens_ptr + request, count, mask=is_request)

    entry = request[:, None] * width + place[None, :]
    is_entry = is_request[:, None] & (place < width)[None, :]
    is_kept = is_entry & (place[None, :] < count[:, None])
    node = tl.load(accept_index_ptr + entry, mask=is_kept, other=-1)
    is_node = is_kept & (node >= 0) & (node < num_requests * num_nodes)
    is_last = is_node & (place[None, :] == count[:, None] - 1)
    bonus = tl.sum(tl.load(predict_ptr + node, mask=is_last, other=0), 1)
    tl.store(bonus_tokens_ptr + request, bonus, mask=is_request)

    # Kept entries stand at the front in order and the others at the end, so that every place is taken once.
    rank = (before + tl.cumsum(count, 0) - count)[:, None] + tl.minimum(place[None, :], count[:, None])
    to = tl.where(is_kept, rank, num_requests * width - 1 - (entry - rank))
    source = tl.load(out_cache_loc_ptr + node, mask=is_node, other=0)
    tl.store(source_slots_ptr + to, source, mask=is_entry)
    own = request[:, None] * num_nodes + place[None, :]
    target = tl.load(out_cache_loc_ptr + own, mask=is_kept & (place < num_nodes)[None, :], other=0)
    tl.store(target_slots_ptr + to, target, mask=is_entry)
