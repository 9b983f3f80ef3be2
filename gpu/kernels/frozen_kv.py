"""Kernels of ``specsim.gpu.frozen_kv``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _prepare_for_frozen_kv_draft_kernel(
    req_pool_indices_ptr,
    seq_lens_ptr,
    beam_req_pool_indices_ptr,
    beam_seq_lens_ptr,
    positions_ptr,
    num_beams,
    topk,
    BEAMS: tl.constexpr,
):
    follow_previous()
    beam = tl.program_id(0) * BEAMS + tl.arange(0, BEAMS)
    is_beam = beam < num_beams
    request = beam // topk
    row = tl.load(req_pool_indices_ptr + request, mask=is_beam, other=0)
    length = tl.load(seq_lens_ptr + request, mask=is_beam, other=0).to(tl.int64)
    tl.store(beam_req_pool_indices_ptr + beam, row, mask=is_beam)
    tl.store(beam_seq_lens_ptr + beam, length, mask=is_beam)
    tl.store(positions_ptr + beam, tl.maximum(length - 1, 0), mask=is_beam)


@triton.jit
def _select_last_verified_kernel(
    num_accepted_tokens_ptr,
    select_index_ptr,
    num_requests,
    REQUESTS: tl.constexpr,
):
    follow_previous()
    before = tl.zeros([1], dtype=tl.int64)
    for first in range(0, num_requests, REQUESTS):
        request = first + tl.arange(0, REQUESTS)
        is_request = request < num_requests
        count = tl.load(num_accepted_tokens_ptr + request, mask=is_request, other=0).to(tl.int64)
        tl.store(select_index_ptr + request, before + tl.cumsum(count, 0) - 1, mask=is_request)
        before += tl.sum(count, 0)
