"""Extend on the GPU: the inputs with which the draft model catches up."""

import torch

from specsim.gpu.kernels.extend import (
    _create_extend_after_decode_spec_info_kernel,
    _generate_attn_arg_prefill_kernel,
    _prepare_for_extend_to_fill_draft_kvcache_kernel,
    _rotate_prefill_input_ids_kernel,
)
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block, chunks_to_fill
from specsim.gpu.launching.buffers import prepare


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


def create_extend_after_decode_spec_info(
    input_ids: torch.Tensor, seq_lens: torch.Tensor, num_accepted_tokens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay out ragged positions and pick each request's last token; a program owns a block of tokens."""
    axes, (positions, bonus_tokens) = prepare("create_extend_after_decode_spec_info", locals())
    num_tokens, num_requests = axes["token"], axes["request"]
    if num_tokens and num_requests:
        requests = choose_block(num_requests, 128, 512)
        tokens = choose_block(num_tokens, 32, LARGEST_TILE // requests)
        _create_extend_after_decode_spec_info_kernel[(ceil_div(num_tokens, tokens),)](
            input_ids.contiguous(),
            seq_lens.contiguous(),
            num_accepted_tokens.contiguous(),
            positions,
            bonus_tokens,
            num_tokens,
            num_requests,
            TOKENS=tokens,
            REQUESTS=requests,
        )
    return positions, bonus_tokens


def generate_attn_arg_prefill(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    kv_lens: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    kv_lens_sum: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out the metadata of a ragged extend; grid: request and one more, chunks of its keys.

    Every program adds up the lengths before its request: 4 or 8 bytes a request, from L2; a slot is read and written
    once.
    """
    axes, (qo_indptr, kv_indptr, kv_indices) = prepare("generate_attn_arg_prefill", locals())
    num_requests = axes["request"]
    block = choose_block(max(axes["position"], 1), 1024, 4096)
    num_chunks = chunks_to_fill(num_requests + 1, ceil_div(axes["position"], block))
    _generate_attn_arg_prefill_kernel[(num_requests + 1, num_chunks)](
        req_pool_indices.contiguous(),
        req_to_token,
        kv_lens.contiguous(),
        num_accepted_tokens.contiguous(),
        qo_indptr,
        kv_indptr,
        kv_indices,
        num_requests,
        axes["row"],
        axes["position"],
        kv_lens_sum,
        *req_to_token.stride(),
        REQUESTS=choose_block(max(num_requests, 1), 1024),
        BLOCK=block,
    )
    return qo_indptr, kv_indptr, kv_indices
