"""Kernels that workers launch in the place of several operations."""

import triton
import triton.language as tl


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
