"""Draft cache: the slots that the draft model writes and reads while it drafts."""

import torch

from specsim.gpu.kernels import draft_cache as kernels
from specsim.gpu.launching.blocks import ceil_div, choose_block, chunks_to_fill, power_of_two
from specsim.gpu.launching.buffers import prepare


def assign_draft_cache_locs(
    req_pool_indices: torch.Tensor, req_to_token: torch.Tensor, seq_lens: torch.Tensor, topk: int, num_steps: int
) -> torch.Tensor:
    """Read the slots of the draft entries from the request rows; one launch over the flat slots."""
    axes, (out_cache_loc,) = prepare("assign_draft_cache_locs", locals())
    num_entries = axes["request"] * topk * num_steps
    if num_entries:
        block = choose_block(num_entries, 256)
        kernels._assign_draft_cache_locs_kernel[(ceil_div(num_entries, block),)](
            req_pool_indices.contiguous(),
            req_to_token,
            seq_lens.contiguous(),
            out_cache_loc,
            num_entries,
            axes["row"],
            axes["position"],
            req_to_token.stride(0),
            req_to_token.stride(1),
            ENTRIES=topk * num_steps,
            BLOCK=block,
        )
    return out_cache_loc


def per_step_draft_out_cache_loc(out_cache_loc: torch.Tensor, topk: int, num_steps: int) -> torch.Tensor:
    """Turn request-major draft slots into one row a step; one launch."""
    axes, (step_cache_loc,) = prepare("per_step_draft_out_cache_loc", locals())
    num_entries = step_cache_loc.numel()
    if num_entries:
        block = choose_block(num_entries, 256)
        kernels._per_step_draft_out_cache_loc_kernel[(ceil_div(num_entries, block),)](
            out_cache_loc,
            step_cache_loc,
            num_entries,
            axes["request"] * topk,
            out_cache_loc.stride(0),
            NUM_STEPS=num_steps,
            BLOCK=block,
        )
    return step_cache_loc


def generate_draft_decode_kv_indices(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    positions: torch.Tensor,
    topk: int,
    num_steps: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """List, for every step and beam, the slots that the beam attends to; one launch.

    Grid: request, groups of (step, beam), chunks of the prefix. Written once: 4 bytes a slot listed; read once a group.
    """
    axes, (kv_indices, kv_indptr) = prepare("generate_draft_decode_kv_indices", locals())
    num_requests, row_width = axes["request"], axes["position"]
    if num_requests == 0:
        kv_indptr.zero_()
        return kv_indices, kv_indptr
    num_pairs = topk * num_steps
    rows = choose_block(num_pairs, 4)
    num_groups = ceil_div(num_pairs, rows)
    block = choose_block(row_width, 512, 4096)
    num_chunks = chunks_to_fill(num_requests * num_groups, ceil_div(row_width, block))
    kernels._generate_draft_decode_kv_indices_kernel[(num_requests, num_groups, num_chunks)](
        req_pool_indices.contiguous(),
        req_to_token,
        seq_lens.contiguous(),
        kv_indices,
        kv_indptr,
        num_requests,
        axes["row"],
        row_width,
        req_to_token.stride(0),
        req_to_token.stride(1),
        TOPK=topk,
        NUM_STEPS=num_steps,
        OWN=power_of_two(num_steps),
        REQUESTS=power_of_two(num_requests),
        ROWS=rows,
        BLOCK=block,
    )
    return kv_indices, kv_indptr
