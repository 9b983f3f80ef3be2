"""What follows a verify: bonus tokens, the slots of accepted nodes, and their moves."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from specsim.counts import path_width
from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

EAGLE = "kernels.ops.speculative.eagle"
BONUS = in_release("fill_bonus_tokens_func", EAGLE)
ACCEPTED_SLOTS = in_release("fill_accept_out_cache_loc_func", EAGLE)
FRONT_SLOTS = in_release("fill_front_out_cache_loc_func", "kernels.ops.speculative.cache_locs")
PREPARE_MOVE = in_release("MHATokenToKVPool._init_kv_copy_and_warmup", "srt.mem_cache.memory_pool")
MOVE = in_release("MHATokenToKVPool._move_kv_cache_impl", "srt.mem_cache.memory_pool")
COMPACT = in_release("_compact_accept_to_front", "srt.speculative.eagle_worker_common")
COMMIT_STEPS = in_release("fused_commit_track_indices", "kernels.ops.mamba.mamba_state_scatter_triton")


def fill_bonus_tokens(accept_tokens: "torch.Tensor", num_accepted_tokens: "torch.Tensor") -> "torch.Tensor":
    """Pick the last output token of each request."""
    num_requests, width = accept_tokens.shape
    bonus_tokens = accept_tokens.new_empty(num_requests)
    engine().get(BONUS)(accept_tokens, num_accepted_tokens, bonus_tokens, width, num_requests)
    return bonus_tokens


def fill_accept_out_cache_loc(accept_index: "torch.Tensor", out_cache_loc: "torch.Tensor") -> "torch.Tensor":
    """List the slots of the accepted nodes; SGLang hands over a list of zeros."""
    source_slots = out_cache_loc.new_zeros(accept_index.numel())
    engine().get(ACCEPTED_SLOTS)(accept_index, out_cache_loc, source_slots, accept_index.numel())
    return source_slots


def fill_accept_target_cache_loc(
    num_accepted_tokens: "torch.Tensor", out_cache_loc: "torch.Tensor", num_steps: int
) -> "torch.Tensor":
    """List the slots that the accepted nodes move to; SGLang hands over a list of zeros."""
    target_slots = out_cache_loc.new_zeros(len(num_accepted_tokens) * path_width(num_steps))
    engine().get(FRONT_SLOTS)(num_accepted_tokens, out_cache_loc, target_slots)
    return target_slots


def compact_accepted_to_front(values: "torch.Tensor", accept_index: "torch.Tensor") -> "torch.Tensor":
    """Bring the entries of the accepted path to the front of each request's block."""
    num_requests = len(accept_index)
    compacted: torch.Tensor = engine().get(COMPACT)(
        values, accept_index, num_requests, num_draft_tokens=len(values) // num_requests
    )
    return compacted


def move_kv_cache(kv_buffers: "list[torch.Tensor]", target_slots: "torch.Tensor", source_slots: "torch.Tensor") -> None:
    """Copy slots of every buffer, as SGLang's pool of keys and values does, which is built around the buffers."""
    import torch

    device = target_slots.device
    strides = [buffer[0].numel() * buffer.element_size() for buffer in kv_buffers]
    pool = SimpleNamespace(
        layer_num=len(kv_buffers),
        device=device,
        use_native_move_kv_cache=False,
        data_ptrs=torch.tensor([buffer.data_ptr() for buffer in kv_buffers], dtype=torch.uint64, device=device),
        data_strides=torch.tensor(strides, device=device),
        _slot_move_pointer_buffers=lambda: kv_buffers,
        _move_native_fp4_scales=lambda *_: None,
    )
    engine().get(PREPARE_MOVE)(pool)
    engine().get(MOVE)(pool, target_slots, source_slots)


def get_recurrent_steps(
    accept_index: "torch.Tensor",
    num_accepted_tokens: "torch.Tensor",
    seq_lens: "torch.Tensor",
    num_draft_tokens: int,
    interval: int,
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Find the node whose state is committed, and the one whose state is kept."""
    commit_step, snapshot_step = engine().get(COMMIT_STEPS)(
        accept_index, num_accepted_tokens, seq_lens if interval else None, num_draft_tokens, interval
    )
    return commit_step, commit_step.new_full(commit_step.shape, -1) if snapshot_step is None else snapshot_step


TABLE = (
    Adapted(fill_bonus_tokens, (BONUS,)),
    Adapted(fill_accept_out_cache_loc, (ACCEPTED_SLOTS,)),
    Adapted(fill_accept_target_cache_loc, (FRONT_SLOTS,)),
    Adapted(compact_accepted_to_front, (COMPACT,)),
    Adapted(move_kv_cache, (PREPARE_MOVE, MOVE)),
    Adapted(get_recurrent_steps, (COMMIT_STEPS,)),
)
