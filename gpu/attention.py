"""Attention: what a verify forward hands to kernels of three kinds, for trees; sizes come from scalars alone."""

import torch

from specsim.gpu.kernels import attention as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, choose_block, chunks_to_fill, power_of_two
from specsim.gpu.launching.buffers import prepare

_TILE = 1024


def verify_cascade_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    num_draft_tokens: int,
    max_prefix_len: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out two passes, over the prefix and over the nodes that each node sees; one launch each."""
    axes, outputs = prepare("verify_cascade_metadata", locals())
    cache_seqlens, cu_seqlens_q, page_table, expand_cache_seqlens, expand_page_table = outputs
    num_requests = axes["request"]
    if num_requests == 0:
        cu_seqlens_q.zero_()
        return cache_seqlens, cu_seqlens_q, page_table, expand_cache_seqlens, expand_page_table
    req_pool_indices, seq_lens = req_pool_indices.contiguous(), seq_lens.contiguous()
    block = choose_block(max_prefix_len, _TILE)
    kernels._cascade_prefix_kernel[(num_requests, max(1, ceil_div(max_prefix_len, block)))](
        req_pool_indices,
        req_to_token,
        seq_lens,
        cache_seqlens,
        cu_seqlens_q,
        page_table,
        axes["row"],
        num_draft_tokens,
        max_prefix_len,
        req_to_token.stride(0),
        req_to_token.stride(1),
        BLOCK=block,
    )
    nodes = power_of_two(num_draft_tokens)
    rows = choose_block(num_draft_tokens, max(1, _TILE // nodes), max(1, LARGEST_TILE // nodes))
    kernels._cascade_expand_kernel[(num_requests, ceil_div(num_draft_tokens, rows))](
        req_pool_indices,
        req_to_token,
        seq_lens,
        tree_mask,
        expand_cache_seqlens,
        expand_page_table,
        num_requests,
        axes["row"],
        num_draft_tokens,
        axes["position"],
        axes["mask"],
        req_to_token.stride(0),
        req_to_token.stride(1),
        tree_mask.stride(0),
        REQUESTS=power_of_two(num_requests),
        ROWS=rows,
        NODES=nodes,
    )
    return cache_seqlens, cu_seqlens_q, page_table, expand_cache_seqlens, expand_page_table


def verify_custom_mask_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    tree_mask: torch.Tensor,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out one pass over prefix and window under the full mask; one launch, and a copy of the mask."""
    axes, (qo_indptr, kv_indptr, kv_indices, custom_mask) = prepare("verify_custom_mask_metadata", locals())
    _list_keys(req_pool_indices, req_to_token, seq_lens, num_draft_tokens, qo_indptr, kv_indptr, kv_indices, None)
    length = min(axes["mask"], custom_mask.shape[0])
    custom_mask[:length].copy_(tree_mask[:length])
    custom_mask[length:].fill_(True)
    return qo_indptr, kv_indptr, kv_indices, custom_mask


def verify_extend_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
    seq_lens_sum: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out the keys of the prefix alone, and the offsets of the window's mask; one launch."""
    _, (qo_indptr, kv_indptr, kv_indices, mask_indptr) = prepare("verify_extend_metadata", locals())
    _list_keys(
        req_pool_indices, req_to_token, seq_lens, num_draft_tokens, qo_indptr, kv_indptr, kv_indices, mask_indptr
    )
    return qo_indptr, kv_indptr, kv_indices, mask_indptr


def _list_keys(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_draft_tokens: int,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    mask_indptr: torch.Tensor | None,
) -> None:
    """List the keys of the prefix, and of the window where no offsets of its mask are asked for."""
    num_requests = req_pool_indices.shape[0]
    if num_requests == 0:
        for offsets in (qo_indptr, kv_indptr, mask_indptr):
            if offsets is not None:
                offsets.zero_()
        return
    num_rows, num_positions = req_to_token.shape
    block = choose_block(num_positions, _TILE)
    kernels._list_keys_kernel[(num_requests, chunks_to_fill(num_requests, max(1, ceil_div(num_positions, block))))](
        req_pool_indices.contiguous(),
        req_to_token,
        seq_lens.contiguous(),
        qo_indptr,
        kv_indptr,
        kv_indices,
        mask_indptr,
        num_requests,
        num_rows,
        num_draft_tokens,
        num_positions,
        kv_indices.shape[0],
        req_to_token.stride(0),
        req_to_token.stride(1),
        HAS_WINDOW=mask_indptr is None,
        REQUESTS=power_of_two(num_requests),
        BLOCK=block,
    )
