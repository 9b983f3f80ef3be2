"""The token from which the next draft starts, picked from rows that are padded with -1."""

from typing import TYPE_CHECKING

from specsim.engines.adapter import Adapted
from specsim.engines.vllm.release import engine, in_release

if TYPE_CHECKING:
    import torch

PREPARE = in_release("_eagle_prepare_next_token_padded", "v1.spec_decode.utils")
KERNEL = in_release("eagle_prepare_next_token_padded_kernel", "v1.spec_decode.utils")
VOCABULARY = 2**31 - 1
"""Larger than any token: what lies beyond the vocabulary is no token to vLLM."""


def fill_bonus_tokens(accept_tokens: "torch.Tensor", num_accepted_tokens: "torch.Tensor") -> "torch.Tensor":
    """Pick the last output token of each request; vLLM's sampler pads rows with -1, and no request is discarded."""
    import torch
    import triton

    num_requests, width = accept_tokens.shape
    columns = torch.arange(width, device=accept_tokens.device)
    sampled = accept_tokens.masked_fill(columns >= num_accepted_tokens[:, None], -1)
    bonus_tokens, backup = torch.full_like(num_accepted_tokens, -1), torch.full_like(num_accepted_tokens, -2)
    engine().get(PREPARE)(
        sampled,
        torch.zeros_like(num_accepted_tokens, dtype=torch.bool),
        backup,
        bonus_tokens,
        torch.empty_like(num_accepted_tokens),
        VOCABULARY,
        width,
        num_requests,
        width,
        BLOCK_SIZE_TOKENS=triton.next_power_of_2(width),
    )
    return bonus_tokens


TABLE = (Adapted(fill_bonus_tokens, (PREPARE, KERNEL)),)
