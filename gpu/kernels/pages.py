"""Kernels of ``specsim.gpu.pages``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.ranges import weigh_ranges


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
