"""Extend on the GPU: the inputs with which the draft model catches up."""

import torch

from specsim.gpu.buffers import prepare
from specsim.gpu.kernels.extend import (
    _prepare_for_extend_to_fill_draft_kvcache_kernel,
    _rotate_prefill_input_ids_kernel,
)
from specsim.gpu.launch import LARGEST_TILE, ceil_div, choose_block


def rotate_prefill_input_ids(
    input_ids: torch.Tensor, extend_lens: torch.Tensor, tail_tokens: torch.Tensor
) -> torch.Tensor:
    """Shift each prompt left by one and append its tail token; a program owns a block of tokens."""
    axes, (rotated_input_ids,) = prepare("rotate_prefill_input_ids", locals())
    num_tokens, num_requests = axes["token"], axes["request"]
    if num_tokens:
        requests = choose_block(num_requests, 128, 512)
        tokens = choose_block(num_tokens, 32, LARGEST_TILE // requests)
        _rotate_prefill_input_ids_kernel[(ceil_div(num_tokens, tokens),)](
            input_ids.contiguous(),
            extend_lens.contiguous(),
            tail_tokens.contiguous(),
            rotated_input_ids,
            num_tokens,
            num_requests,
            TOKENS=tokens,
            REQUESTS=requests,
        )
    return rotated_input_ids


def prepare_for_extend_to_fill_draft_kvcache(
    seq_lens: torch.Tensor, num_accepted_tokens: torch.Tensor, num_draft_tokens: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out positions, forward lengths and the selected row; a program owns a block of rows."""
    _, (positions, forward_seq_lens, select_index) = prepare("prepare_for_extend_to_fill_draft_kvcache", locals())
    num_rows = positions.shape[0]
    if num_rows:
        block = choose_block(num_rows, 256)
        _prepare_for_extend_to_fill_draft_kvcache_kernel[(ceil_div(num_rows, block),)](
            seq_lens.contiguous(),
            num_accepted_tokens.contiguous(),
            positions,
            forward_seq_lens,
            select_index,
            num_rows,
            num_draft_tokens,
            BLOCK=block,
        )
    return positions, forward_seq_lens, select_index
