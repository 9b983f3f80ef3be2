"""The request rows, and the inputs of an extend."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

ASSIGN = in_release("assign_req_to_token_pool_func", "srt.mem_cache.allocation", "srt.speculative.spec_utils")
READ = in_release("assign_extend_cache_locs_func", "kernels.ops.speculative.cache_locs")
ROTATE = in_release("rotate_input_ids", "kernels.ops.speculative.multi_layer_eagle")


def assign_req_to_token_pool(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    start_offsets: "torch.Tensor",
    end_offsets: "torch.Tensor",
    out_cache_loc: "torch.Tensor",
) -> None:
    """Write flat slots into a range of each request's row."""
    engine().get(ASSIGN)(
        req_pool_indices, req_to_token, start_offsets, end_offsets, out_cache_loc, len(req_pool_indices)
    )


def assign_extend_cache_locs(
    req_pool_indices: "torch.Tensor",
    req_to_token: "torch.Tensor",
    start_offsets: "torch.Tensor",
    end_offsets: "torch.Tensor",
    num_locations: int,
) -> "torch.Tensor":
    """Read a range of each request's row; SGLang allocates as many slots for every request, so it gets the longest."""
    num_requests = len(req_pool_indices)
    longest = int((end_offsets - start_offsets).max()) if num_requests else 0
    slots: torch.Tensor = engine().get(READ)(
        req_pool_indices, req_to_token, start_offsets, end_offsets, num_requests, longest, req_to_token.device
    )
    return slots[:num_locations]


def rotate_input_ids(
    input_ids: "torch.Tensor",
    extend_start_loc: "torch.Tensor",
    extend_seq_lens: "torch.Tensor",
    next_tokens: "torch.Tensor",
    select_index: "torch.Tensor | None",
) -> None:
    """Shift the ids of each request left by one and write its next token."""
    engine().get(ROTATE)(input_ids, extend_start_loc, extend_seq_lens, next_tokens, select_index)


TABLE = (
    Adapted(assign_req_to_token_pool, (ASSIGN,)),
    Adapted(assign_extend_cache_locs, (READ,)),
    Adapted(rotate_input_ids, (ROTATE,)),
)
