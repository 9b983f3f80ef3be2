"""Verify: attention metadata of the target forward, and acceptance."""

import torch

from specsim.counts import path_width
from specsim.gpu.kernels import verify as kernels
from specsim.gpu.launching.blocks import ceil_div, choose_block, chunks_to_fill, power_of_two
from specsim.gpu.launching.buffers import prepare

INTERPRETED_TILE = 4096


def target_verify_metadata(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    num_tokens: int,
    max_seq_len_k: int,
    page_size: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lay out lengths and page table of a verify forward; one launch over requests and blocks of pages."""
    axes, outputs = prepare("target_verify_metadata", locals())
    cache_seqlens, cu_seqlens_q, cu_seqlens_k, page_table = outputs
    num_requests, num_pages = axes["request"], page_table.shape[1]
    if num_requests == 0:
        cu_seqlens_q.zero_()
        cu_seqlens_k.zero_()
        return cache_seqlens, cu_seqlens_q, cu_seqlens_k, page_table
    block = choose_block(num_pages, 1024)
    kernels._target_verify_metadata_kernel[(num_requests, max(1, ceil_div(num_pages, block)))](
        req_pool_indices.contiguous(),
        req_to_token,
        seq_lens.contiguous(),
        cache_seqlens,
        cu_seqlens_q,
        cu_seqlens_k,
        page_table,
        num_requests,
        axes["row"],
        axes["tokens_per_request"],
        num_pages,
        page_size,
        req_to_token.stride(0),
        req_to_token.stride(1),
        REQUESTS=power_of_two(num_requests),
        BLOCK=block,
    )
    return cache_seqlens, cu_seqlens_q, cu_seqlens_k, page_table


def argmax_target_predict(logits: torch.Tensor) -> torch.Tensor:
    """Return the target's greedy choice of every row, ties by lower id; few rows are split over more programs."""
    axes, (target_predict,) = prepare("argmax_target_predict", locals())
    num_rows, vocab = axes["token"], axes["vocab"]
    if num_rows == 0:
        return target_predict
    block = choose_block(vocab, 4096)
    num_blocks = ceil_div(vocab, block)
    num_blocks_each = ceil_div(num_blocks, chunks_to_fill(num_rows, num_blocks, 512))
    num_shares = ceil_div(num_blocks, num_blocks_each)
    is_last = num_shares == 1
    block_values = None if is_last else logits.new_empty((num_rows, num_shares))
    block_index = None if is_last else logits.new_empty((num_rows, num_shares), dtype=torch.int32)
    kernels._argmax_target_predict_kernel[(num_rows, num_shares)](
        logits,
        block_values,
        block_index,
        target_predict,
        vocab,
        num_blocks_each,
        logits.stride(0),
        logits.stride(1),
        BLOCK=block,
        IS_FLOAT=logits.is_floating_point(),
        IS_LAST=is_last,
        num_warps=max(1, min(8, block // 512)),
    )
    if not is_last:
        kernels._merge_argmax_kernel[(num_rows,)](
            block_values, block_index, target_predict, num_shares, SHARES=power_of_two(num_shares), num_warps=1
        )
    return target_predict


def verify_tree_greedy(
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
    num_steps: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Walk each tree along the target's greedy choices and record the accepted path; one program a request.

    All nodes look for their accepted child at once, so the tree is read in as many rounds as it has siblings.
    """
    axes, (predict, accept_index, num_accepted_drafts) = prepare("verify_tree_greedy", locals())
    num_requests, num_nodes = axes["request"], axes["node"]
    if num_requests:
        nodes = power_of_two(num_nodes)
        requests = choose_block(num_requests, 1, max(1, INTERPRETED_TILE // nodes))
        kernels._verify_tree_greedy_kernel[(ceil_div(num_requests, requests),)](
            candidates.contiguous(),
            retrieve_index.contiguous(),
            retrieve_next_token.contiguous(),
            retrieve_next_sibling.contiguous(),
            target_predict.contiguous(),
            predict,
            accept_index,
            num_accepted_drafts,
            num_requests,
            num_nodes,
            num_steps,
            REQUESTS=requests,
            NODES=nodes,
            WIDTH=power_of_two(path_width(num_steps)),
            num_warps=max(1, min(4, nodes // 32)),
        )
    return predict, accept_index, num_accepted_drafts
