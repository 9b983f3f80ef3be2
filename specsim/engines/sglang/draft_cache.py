"""The slots of drafts: where they are written, and what every step reads."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

ASSIGN = in_release("assign_draft_cache_locs_contiguous_func", "kernels.ops.speculative.cache_locs")
PER_STEP = in_release("per_step_draft_out_cache_loc", "srt.speculative.eagle_utils")
KV_INDICES = in_release(
    "generate_draft_decode_kv_indices", "kernels.ops.speculative.cache_locs", "srt.speculative.spec_utils"
)


def assign_draft_cache_locs(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    topk: int,
    num_steps: int,
    page_size: int,
    num_copies: int,
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Read the slots of the draft entries from the request rows; what copies the ends of texts is not called here."""
    import torch

    if num_copies:
        raise ValueError(f"num_copies is {num_copies}, but should be 0: SGLang's allocators copy the ends of texts")
    out_cache_loc = req_to_token.new_empty(len(seq_lens) * topk * num_steps, dtype=torch.int64)
    engine().get(ASSIGN)(req_pool_indices, req_to_token, seq_lens, out_cache_loc, topk, num_steps)
    return out_cache_loc, out_cache_loc.new_empty(0), out_cache_loc.new_empty(0)


def per_step_draft_out_cache_loc(out_cache_loc: "torch.Tensor", topk: int, num_steps: int) -> "torch.Tensor":
    """Turn request-major draft slots into one row a step."""
    rows: torch.Tensor = engine().get(PER_STEP)(
        out_cache_loc, out_cache_loc.shape[0] // (topk * num_steps), topk, num_steps
    )
    return rows


def generate_draft_decode_kv_indices(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    seq_lens: "torch.Tensor",
    positions: "torch.Tensor",
    topk: int,
    num_steps: int,
    page_size: int,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """List what every beam attends to at every step, with the launch of SGLang's Triton attention backend."""
    import torch
    import triton

    num_requests, num_beams = len(seq_lens), len(seq_lens) * topk
    width = req_to_token.shape[1]
    kv_indices = req_to_token.new_empty((num_steps, num_beams * width), dtype=torch.int32)
    kv_indptr = kv_indices.new_zeros((num_steps, num_beams + 1))
    engine().get(KV_INDICES)[(num_steps, num_requests, topk)](
        req_pool_indices,
        req_to_token,
        seq_lens,
        kv_indices,
        kv_indptr,
        positions,
        width,
        kv_indices.shape[1],
        kv_indptr.shape[1],
        triton.next_power_of_2(num_requests),
        triton.next_power_of_2(num_steps),
        triton.next_power_of_2(num_beams),
        page_size,
    )
    return kv_indices, kv_indptr


TABLE = (
    Adapted(assign_draft_cache_locs, (ASSIGN,)),
    Adapted(per_step_draft_out_cache_loc, (PER_STEP,)),
    Adapted(generate_draft_decode_kv_indices, (KV_INDICES,)),
)
