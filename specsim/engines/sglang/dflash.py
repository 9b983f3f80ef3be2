"""Blocks that are drafted at once."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.sglang.release import engine, in_release

if TYPE_CHECKING:
    import torch

PREPARE = in_release("_prepare_dflash_draft_block_unchecked", "kernels.ops.speculative.dflash")
LAYERS = in_release("build_target_layer_ids", "srt.speculative.dflash_utils")


def prepare_block_draft(
    bonus_tokens: "torch.Tensor", seq_lens: "torch.Tensor", mask_token: int, num_draft_tokens: int
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Give tokens and positions of a block; the slots that SGLang reads with them come from an empty table."""
    import torch

    num_requests = len(seq_lens)
    rows = torch.arange(num_requests, device=seq_lens.device)
    table = seq_lens.new_zeros((num_requests, 1), dtype=torch.int32)
    input_ids, positions, slots = (rows.new_empty((num_requests, num_draft_tokens)) for _ in range(3))
    engine().get(PREPARE)(bonus_tokens, seq_lens, rows, table, input_ids, positions, slots, mask_token)
    return input_ids.flatten(), positions.flatten()


def target_feature_layers(num_target_layers: int, num_features: int) -> tuple[int, ...]:
    """Return the layers of the target whose hidden states are projected into the draft's KV."""
    return tuple(engine().get(LAYERS)(num_target_layers, num_features))


TABLE = (Adapted(prepare_block_draft, (PREPARE,)), Adapted(target_feature_layers, (LAYERS,)))
