"""Kernels of ``specsim.gpu.penalties``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.dividing import LEAST_PLAIN, MOST_PLAIN, divide_plain
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def read_row(logits_ptr, row, row_stride, mask):
    """Read some logits of a row."""
    return tl.load(logits_ptr + row * row_stride, mask=mask, other=0.0)


@triton.jit
def count_drafts(counts, node, row, num_nodes, tree_mask_ptr, draft, NODES: tl.constexpr, BLOCK: tl.constexpr):
    """Return how often tokens of a block count for a node: counts, and the drafts among them that it sees."""
    drafted = tl.arange(0, NODES)
    lane = tl.arange(0, BLOCK)
    is_here = (draft >= 0) & (draft < BLOCK)
    one = tl.min(tl.where(is_here, drafted, NODES))
    while one < NODES:
        sees = tl.load(tree_mask_ptr + row * num_nodes + one) != 0
        counts += (sees & (lane == tl.sum(tl.where(drafted == one, draft, 0)))).to(tl.int32)
        one = tl.min(tl.where(is_here & (drafted > one), drafted, NODES))
    return counts


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
    UNIT: tl.constexpr,
):
    """Penalise some tokens of some nodes of a request, which share its counts; a row is read while the last is written.

    Every operation rounds once: launch it without fusion of products and sums. Tokens that do not count are divided by
    one; if a dividend was too small or too large for a plain division, all is done again by the division of the GPU.
    """
    follow_previous()
    num_blocks = tl.cdiv(vocab, BLOCK)
    num_groups = tl.cdiv(num_nodes, GROUP)
    group = tl.program_id(0) // num_blocks
    request = (group // num_groups).to(tl.int64)
    begin = group % num_groups * GROUP
    end = tl.minimum(begin + GROUP, num_nodes)
    first = tl.program_id(0) % num_blocks * BLOCK
    token = first + tl.arange(0, BLOCK)
    is_token = token < vocab
    row = request * num_nodes + begin
    logits_ptr += token.to(tl.int64) * column_stride
    # Four rows are on their way at any time: one is too few bytes of each multiprocessor for the memory to be busy.
    row_1 = read_row(logits_ptr, row, row_stride, is_token & (begin < end))
    row_2 = read_row(logits_ptr, row + 1, row_stride, is_token & (begin + 1 < end))
    row_3 = read_row(logits_ptr, row + 2, row_stride, is_token & (begin + 2 < end))
    row_4 = read_row(logits_ptr, row + 3, row_stride, is_token & (begin + 3 < end))
    counts = tl.load(token_counts_ptr + request * vocab + token, mask=is_token, other=0)
    frequency_penalty = tl.load(frequency_penalty_ptr + request)
    presence_penalty = tl.load(presence_penalty_ptr + request)
    repetition_penalty = tl.load(repetition_penalty_ptr + request)
    inverse = tl.math.div_rn(1.0, repetition_penalty)
    # The drafts among these tokens, of which few programs have any. The root is output, which has its count.
    drafted = tl.arange(0, NODES)
    draft = tl.full([NODES], -1, dtype=tl.int32)
    if EXACT:
        is_draft = (drafted > 0) & (drafted < num_nodes)
        draft = tl.load(draft_token_ptr + request * num_nodes + drafted, mask=is_draft, other=-1).to(tl.int32) - first
    least = tl.full([BLOCK // UNIT], LEAST_PLAIN, dtype=tl.float32)
    most = tl.full([BLOCK // UNIT], MOST_PLAIN, dtype=tl.float32)
    for node in range(begin, end):
        logit = row_1.to(tl.float32)
        row_1, row_2, row_3 = row_2, row_3, row_4
        row_4 = read_row(logits_ptr, row + 4, row_stride, is_token & (node + 4 < end))
        count = count_drafts(counts, node, row, num_nodes, tree_mask_ptr, draft, NODES, BLOCK)
        occurs = count > 0
        logit -= frequency_penalty * count.to(tl.float32)
        logit -= tl.where(occurs, presence_penalty, 0.0)
        factor = tl.where(occurs, repetition_penalty, 1.0)
        is_divided = logit > 0
        dividend = tl.reshape(tl.where(is_divided, logit, LEAST_PLAIN), [BLOCK // UNIT, UNIT])
        least = tl.minimum(least, tl.min(dividend, axis=1))
        most = tl.maximum(most, tl.max(dividend, axis=1))
        quotient = divide_plain(logit, factor, tl.where(occurs, inverse, 1.0))
        penalised = tl.where(is_divided, quotient, logit * factor)
        tl.store(penalised_logits_ptr + row * vocab + token, penalised, mask=is_token)
        row += 1
    is_plain = (tl.min(least, axis=0) >= LEAST_PLAIN) & (tl.max(most, axis=0) <= MOST_PLAIN)
    for node in range(begin, tl.where(is_plain, begin, end)):
        row = request * num_nodes + node
        logit = read_row(logits_ptr, row, row_stride, is_token).to(tl.float32)
        count = count_drafts(counts, node, row, num_nodes, tree_mask_ptr, draft, NODES, BLOCK)
        occurs = count > 0
        logit -= frequency_penalty * count.to(tl.float32)
        logit -= tl.where(occurs, presence_penalty, 0.0)
        factor = tl.where(occurs, repetition_penalty, 1.0)
        quotient = tl.math.div_rn(logit, factor)
        penalised = tl.where(logit > 0, quotient, logit * factor)
        tl.store(penalised_logits_ptr + row * vocab + token, penalised, mask=is_token)
