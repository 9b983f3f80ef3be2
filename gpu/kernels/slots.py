"""Kernels of ``specsim.gpu.slots``: a program owns a block of flat locations and finds their requests."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.ranges import count_ranges
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _locate(
    location,
    req_pool_indices_ptr,
    start_offsets_ptr,
    end_offsets_ptr,
    num_locations,
    num_requests,
    num_rows,
    row_width,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Find the row and position of each location, and whether a range inside the rows reaches it."""
    request = tl.zeros([LOCATIONS], dtype=tl.int32)
    begin = tl.zeros([LOCATIONS], dtype=tl.int32)
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        start = tl.load(start_offsets_ptr + index, mask=is_request, other=0)
        end = tl.load(end_offsets_ptr + index, mask=is_request, other=0)
        length = tl.minimum(tl.maximum(end - start, 0), num_locations).to(tl.int32)
        num_past, past_length = count_ranges(location, length, is_request, before)
        request += num_past
        begin += past_length
        before += tl.sum(length, 0)
    is_reached = request < num_requests
    row = tl.load(req_pool_indices_ptr + request, mask=is_reached, other=0)
    position = tl.load(start_offsets_ptr + request, mask=is_reached, other=0).to(tl.int64) + location - begin
    is_inside = (row >= 0) & (row < num_rows) & (position >= 0) & (position < row_width)
    return row, position, is_reached & (location < num_locations) & is_inside


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
    num_rows,
    row_width,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    location = tl.program_id(0) * LOCATIONS + tl.arange(0, LOCATIONS)
    row, position, mask = _locate(
        location,
        req_pool_indices_ptr,
        start_offsets_ptr,
        end_offsets_ptr,
        num_locations,
        num_requests,
        num_rows,
        row_width,
        LOCATIONS,
        REQUESTS,
    )
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
    num_rows,
    row_width,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    location = tl.program_id(0) * LOCATIONS + tl.arange(0, LOCATIONS)
    row, position, is_read = _locate(
        location,
        req_pool_indices_ptr,
        start_offsets_ptr,
        end_offsets_ptr,
        num_locations,
        num_requests,
        num_rows,
        row_width,
        LOCATIONS,
        REQUESTS,
    )
    slot = tl.load(req_to_token_ptr + row * row_stride + position * position_stride, mask=is_read, other=0)
    tl.store(out_cache_loc_ptr + location, slot.to(tl.int64), mask=location < num_locations)


@triton.jit
def _remap_accepted_slots_kernel(
    req_pool_indices_ptr,
    req_to_token_ptr,
    seq_lens_ptr,
    out_cache_loc_ptr,
    accept_index_ptr,
    evict_mask_ptr,
    num_requests,
    num_nodes,
    width,
    num_rows,
    row_width,
    row_stride,
    position_stride,
    REQUESTS: tl.constexpr,
    NODES: tl.constexpr,
    PATH: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    node = tl.program_id(1) * NODES + tl.arange(0, NODES)
    place = tl.arange(0, PATH)
    is_request = request < num_requests
    is_entry = is_request[:, None] & (place[None, :] < width)
    path = tl.load(accept_index_ptr + request[:, None] * width + place[None, :], mask=is_entry, other=-1)
    own = request[:, None] * num_nodes + node[None, :]
    is_match = is_entry[:, None, :] & (path[:, None, :] == own[:, :, None])
    depth = tl.sum(tl.where(is_match, place[None, None, :], 0), 2)
    is_accepted = tl.sum(is_match.to(tl.int32), 2) > 0
    is_node = is_request[:, None] & (node[None, :] < num_nodes)
    tl.store(evict_mask_ptr + own, ~is_accepted, mask=is_node)
    row = tl.load(req_pool_indices_ptr + request, mask=is_request, other=0)
    length = tl.load(seq_lens_ptr + request, mask=is_request, other=0).to(tl.int64)
    position = length[:, None] + depth
    inside = (row >= 0) & (row < num_rows)
    mapped = is_node & is_accepted & inside[:, None] & (position >= 0) & (position < row_width)
    slot = tl.load(out_cache_loc_ptr + own, mask=mapped, other=0).to(tl.int32)
    tl.store(req_to_token_ptr + row[:, None] * row_stride + position * position_stride, slot, mask=mapped)
