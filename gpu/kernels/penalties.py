"""Kernels of ``specsim.gpu.penalties``."""

import triton
import triton.language as tl


@triton.jit
def _seen_drafts(draft_token_ptr, tree_mask_ptr, row, num_nodes, first, COUNT: tl.constexpr):
    """Return int32 tokens of the drafts that a node sees, -1 for others; the root is output, so that counts have it."""
    node = first + tl.arange(0, COUNT)
    sees = tl.load(tree_mask_ptr + row * num_nodes + node, mask=(node > 0) & (node < num_nodes), other=0) != 0
    request_start = row // num_nodes * num_nodes
    return tl.load(draft_token_ptr + request_start + node, mask=sees, other=-1).to(tl.int32)


@triton.jit(do_not_specialize=["num_nodes"])
def _apply_penalties_kernel(
    logits_ptr,
    token_counts_ptr,
    draft_token_ptr,
    tree_mask_ptr,
    frequency_penalty_ptr,
    presence_penalty_ptr,
    repetition_penalty_ptr,
    penalised_logits_ptr,
    num_nodes,
    vocab,
    row_stride,
    column_stride,
    EXACT: tl.constexpr,
    NODES: tl.constexpr,
    COMPARED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Penalise some tokens of one node. Every operation rounds once: launch it without fusion of products and sums."""
    row = tl.program_id(0).to(tl.int64)
    request = row // num_nodes
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = token < vocab
    logit = tl.load(logits_ptr + row * row_stride + token.to(tl.int64) * column_stride, mask=inside, other=0.0)
    logit = logit.to(tl.float32)
    count = tl.load(token_counts_ptr + request * vocab + token, mask=inside, other=0)
    if EXACT:
        # NOTE: few programs own a token that was drafted, and only these compare.
        offset = _seen_drafts(draft_token_ptr, tree_mask_ptr, row, num_nodes, 0, NODES) - tl.program_id(1) * BLOCK
        if tl.sum(((offset >= 0) & (offset < BLOCK)).to(tl.int32)) > 0:
            for first in range(0, num_nodes, COMPARED):
                draft = _seen_drafts(draft_token_ptr, tree_mask_ptr, row, num_nodes, first, COMPARED)
                count += tl.sum((token[:, None] == draft[None, :]).to(tl.int32), axis=1)
    occurs = count > 0
    logit -= tl.load(frequency_penalty_ptr + request) * count.to(tl.float32)
    logit = tl.where(occurs, logit - tl.load(presence_penalty_ptr + request), logit)
    scale = tl.load(repetition_penalty_ptr + request)
    scaled = tl.where(logit > 0, tl.math.div_rn(logit, tl.zeros_like(logit) + scale), logit * scale)
    tl.store(penalised_logits_ptr + row * vocab + token, tl.where(occurs, scaled, logit), mask=inside)
