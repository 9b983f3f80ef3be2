"""Kernels of ``specsim.gpu.pages``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.ranges import count_ranges, weigh_ranges
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _align_evict_mask_to_page_size_kernel(
    seq_lens_ptr,
    evict_mask_ptr,
    num_requests,
    num_nodes,
    mask_stride,
    PAGE_SIZE: tl.constexpr,
    NODES: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    node = tl.arange(0, NODES)
    is_request = request < num_requests
    is_node = is_request[:, None] & (node[None, :] < num_nodes)
    place = (request[:, None] * num_nodes + node[None, :]) * mask_stride
    is_evicted = tl.load(evict_mask_ptr + place, mask=is_node, other=1) != 0
    num_kept = tl.sum((is_node & (is_evicted == 0)).to(tl.int32), 1)
    length = tl.load(seq_lens_ptr + request, mask=is_request, other=0).to(tl.int64)
    start = (length + num_kept - 1) // PAGE_SIZE * PAGE_SIZE - length
    is_on_page = (node[None, :] >= start[:, None]) & (node[None, :] - start[:, None] < PAGE_SIZE)
    tl.store(evict_mask_ptr + place, is_evicted & (is_on_page == 0), mask=is_node & is_evicted & is_on_page)


@triton.jit
def _get_src_tgt_cache_loc_kernel(
    seq_lens_ptr,
    out_cache_loc_ptr,
    accept_indices_ptr,
    num_accepted_drafts_ptr,
    source_slots_ptr,
    to_free_num_slots_ptr,
    num_tokens,
    num_requests,
    num_nodes,
    num_slots,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    follow_previous()
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_token = entry < num_tokens
    node = tl.load(accept_indices_ptr + entry, mask=is_token, other=-1).to(tl.int64)
    is_slot = is_token & (node >= 0) & (node < num_slots)
    tl.store(source_slots_ptr + entry, tl.load(out_cache_loc_ptr + node, mask=is_slot, other=0), mask=is_token)
    is_request = entry < num_requests
    length = tl.load(seq_lens_ptr + entry, mask=is_request, other=0).to(tl.int64)
    num_kept = length + tl.load(num_accepted_drafts_ptr + entry, mask=is_request, other=0) + 1
    page_end = (num_kept + PAGE_SIZE - 1) // PAGE_SIZE * PAGE_SIZE
    to_free = tl.maximum(length + num_nodes - page_end, 0).to(tl.int32)
    tl.store(to_free_num_slots_ptr + entry, to_free, mask=is_request)


@triton.jit(do_not_specialize=["num_targets", "num_freed"])
def _get_target_cache_loc_kernel(
    num_accepted_drafts_ptr,
    to_free_num_slots_ptr,
    out_cache_loc_ptr,
    target_slots_ptr,
    to_free_slots_ptr,
    num_targets,
    num_freed,
    num_requests,
    num_nodes,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Fill a block of one of the two lists: of each window the front, or the back."""
    follow_previous()
    is_target = tl.program_id(1) == 0
    location = tl.program_id(0) * LOCATIONS + tl.arange(0, LOCATIONS)
    request = tl.zeros([LOCATIONS], dtype=tl.int32)
    begin = tl.zeros([LOCATIONS], dtype=tl.int32)
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        num_tokens = tl.load(num_accepted_drafts_ptr + index, mask=is_request, other=-1) + 1
        to_free = tl.load(to_free_num_slots_ptr + index, mask=is_request, other=0)
        length = tl.minimum(tl.maximum(tl.where(is_target, num_tokens, to_free), 0), num_nodes)
        num_past, past_length = count_ranges(location, length, is_request, before)
        request += num_past
        begin += past_length
        before += tl.sum(length, 0)
    is_listed = location < tl.where(is_target, num_targets, num_freed)
    is_reached = is_listed & (request < num_requests)
    to_free = tl.load(to_free_num_slots_ptr + request, mask=is_reached, other=0)
    place = location - begin + tl.where(is_target, 0, num_nodes - to_free)
    is_slot = is_reached & (place >= 0) & (place < num_nodes)
    slot = tl.load(out_cache_loc_ptr + request.to(tl.int64) * num_nodes + place, mask=is_slot, other=0)
    tl.store(target_slots_ptr + location, slot, mask=is_listed & is_target)
    tl.store(to_free_slots_ptr + location, slot, mask=is_listed & (is_target == 0))


@triton.jit(do_not_specialize=["num_unfinished"])
def _create_num_accepted_drafts_filter_kernel(
    num_accepted_drafts_ptr,
    unfinished_index_ptr,
    seq_lens_ptr,
    num_unfinished_tokens_ptr,
    num_requests,
    num_unfinished,
    length_stride,
    REQUESTS: tl.constexpr,
    PLACES: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0).to(tl.int64) * REQUESTS + tl.arange(0, REQUESTS)
    is_request = request < num_requests
    num_found = tl.zeros([REQUESTS], dtype=tl.int32)
    for first in range(0, num_unfinished, PLACES):
        place = first + tl.arange(0, PLACES)
        unfinished = tl.load(unfinished_index_ptr + place, mask=place < num_unfinished, other=-1)
        num_found += tl.sum((unfinished[None, :] == request[:, None]).to(tl.int32), 1)
    num_tokens = tl.load(num_accepted_drafts_ptr + request, mask=is_request, other=0) + 1
    tl.store(num_unfinished_tokens_ptr + request, tl.where(num_found > 0, num_tokens, 0), mask=is_request)
    length = tl.load(seq_lens_ptr + request * length_stride, mask=is_request, other=0)
    tl.store(seq_lens_ptr + request * length_stride, length + num_tokens, mask=is_request)


@triton.jit
def _filter_finished_cache_loc_kernel(
    target_slots_ptr,
    num_accepted_drafts_ptr,
    num_unfinished_tokens_ptr,
    out_cache_loc_ptr,
    num_locations,
    num_requests,
    num_slots,
    LOCATIONS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    location = tl.program_id(0) * LOCATIONS + tl.arange(0, LOCATIONS)
    source = location
    before = 0
    for first in range(0, num_requests, REQUESTS):
        index = first + tl.arange(0, REQUESTS)
        is_request = index < num_requests
        kept = tl.load(num_unfinished_tokens_ptr + index, mask=is_request, other=0)
        kept = tl.minimum(tl.maximum(kept, 0), num_locations)
        count = tl.load(num_accepted_drafts_ptr + index, mask=is_request, other=-1) + 1
        # What the requests before a location's own do not keep lies between the two lists.
        source += weigh_ranges(location, kept, count - kept, is_request, before)
        before += tl.sum(kept, 0)
    is_location = location < num_locations
    is_slot = is_location & (source >= 0) & (source < num_slots)
    slot = tl.load(target_slots_ptr + source, mask=is_slot, other=0)
    tl.store(out_cache_loc_ptr + location, slot, mask=is_location)
