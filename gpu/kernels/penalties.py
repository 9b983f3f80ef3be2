"""Kernels of ``specsim.gpu.penalties``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


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
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Penalise some tokens of some nodes of a request, which share its counts; a row is read while the last is written.

    Every operation rounds once: launch it without fusion of products and sums.
    """
    follow_previous()
    num_groups = tl.cdiv(num_nodes, GROUP)
    request = (tl.program_id(0) // num_groups).to(tl.int64)
    begin = tl.program_id(0) % num_groups * GROUP
    end = tl.minimum(begin + GROUP, num_nodes)
    lane = tl.arange(0, BLOCK)
    first = tl.program_id(1) * BLOCK
    token = first + lane
    is_token = token < vocab
    counts = tl.load(token_counts_ptr + request * vocab + token, mask=is_token, other=0)
    frequency_penalty = tl.load(frequency_penalty_ptr + request)
    presence_penalty = tl.load(presence_penalty_ptr + request)
    repetition_penalty = tl.load(repetition_penalty_ptr + request)
    # The drafts among these tokens, of which few programs have any. The root is output, which has its count.
    drafted = tl.arange(0, NODES)
    draft = tl.full([NODES], -1, dtype=tl.int32)
    if EXACT:
        is_draft = (drafted > 0) & (drafted < num_nodes)
        draft = tl.load(draft_token_ptr + request * num_nodes + drafted, mask=is_draft, other=-1).to(tl.int32) - first
    is_here = (draft >= 0) & (draft < BLOCK)
    earliest = tl.min(tl.where(is_here, drafted, NODES))
    row = request * num_nodes + begin
    logits_ptr += token.to(tl.int64) * column_stride
    following = tl.load(logits_ptr + row * row_stride, mask=is_token, other=0.0)
    for node in range(begin, end):
        logit = following.to(tl.float32)
        following = tl.load(logits_ptr + (row + 1) * row_stride, mask=is_token & (node + 1 < end), other=0.0)
        count = counts
        one = earliest
        while one < NODES:
            sees = tl.load(tree_mask_ptr + row * num_nodes + one) != 0
            count += (sees & (lane == tl.sum(tl.where(drafted == one, draft, 0)))).to(tl.int32)
            one = tl.min(tl.where(is_here & (drafted > one), drafted, NODES))
        occurs = count > 0
        logit -= frequency_penalty * count.to(tl.float32)
        logit = tl.where(occurs, logit - presence_penalty, logit)
        divisor = tl.zeros_like(logit) + repetition_penalty
        scaled = tl.where(logit > 0, tl.math.div_rn(logit, divisor), logit * repetition_penalty)
        tl.store(penalised_logits_ptr + row * vocab + token, tl.where(occurs, scaled, logit), mask=is_token)
        row += 1
