"""Kernels of ``specsim.gpu.slots``: a program owns a block of flat locations and finds their requests."""

import triton
import triton.language as tl

from specsim.gpu.kernels.ranges import count_ranges


@triton.jit
def _locate(
    location,
    req_pool_indices_ptr,
    start_offsets_ptr,
    end_offsets_ptr,
    num_requests,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Row and position of each location, and whether any range reaches it."""
    request = tl.zeros([LOCATIONS], dtype=tl.int32)
    begin = tl.zeros([LOCATIONS], dtype=tl.int32)
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        start = tl.load(start_offsets_ptr + index, mask=is_request, other=0)
        end = tl.load(end_offsets_ptr + index, mask=is_request, other=0)
        length = tl.maximum(end - start, 0).to(tl.int32)
        num_past, past_length = count_ranges(location, length, is_request, before)
        request += num_past
        begin += past_length
        before += tl.sum(length, 0)
    is_reached = request < num_requests
    row = tl.load(req_pool_indices_ptr + request, mask=is_reached, other=0)
    start = tl.load(start_offsets_ptr + request, mask=is_reached, other=0).to(tl.int64)
    return row, start + location - begin, is_reached


@triton.jit
def _assign_req_to_token_pool_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    start_offsets_ptr,
    end_offsets_ptr,
    out_cache_loc_ptr,
    row_stride,
    position_stride,
    num_locations,
    num_requests,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    location = tl.program_id(0) * LOCATIONS + tl.arange(0, LOCATIONS)
    row, position, is_reached = _locate(
        location, req_pool_indices_ptr, start_offsets_ptr, end_offsets_ptr, num_requests, LOCATIONS, REQUESTS
    )
    mask = is_reached & (location < num_locations)
    slot = tl.load(out_cache_loc_ptr + location, mask=mask, other=0).to(tl.int32)
    tl.store(req_to_token_ptr + row * row_stride + position * position_stride, slot, mask=mask)


@triton.jit
def _assign_extend_cache_locs_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    start_offsets_ptr,
    end_offsets_ptr,
    out_cache_loc_ptr,
    row_stride,
    position_stride,
    num_locations,
    num_requests,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    location = tl.program_id(0) * LOCATIONS + tl.arange(0, LOCATIONS)
    row, position, is_reached = _locate(
        location, req_pool_indices_ptr, start_offsets_ptr, end_offsets_ptr, num_requests, LOCATIONS, REQUESTS
    )
    mask = location < num_locations
    slot = tl.load(req_to_token_ptr + row * row_stride + position * position_stride, mask=mask & is_reached, other=0)
    tl.store(out_cache_loc_ptr + location, slot.to(tl.int64), mask=mask)
