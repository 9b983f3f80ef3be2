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
def count_drafts(counts, row, num_nodes, tree_mask_ptr, draft, NODES: tl.constexpr, BLOCK: tl.constexpr):
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


@triton.jit
def take_away(logit, count, penalties):
    """Return logits without what is taken from tokens that count, and by what those are scaled; others by one."""
    frequency, presence, repetition = penalties
    logit = logit.to(tl.float32) - frequency * count.to(tl.float32)
    return logit - tl.where(count > 0, presence, 0.0), tl.where(count > 0, repetition, 1.0)


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
    """Penalise some tokens of some nodes of a request, which share its counts.

    Every operation rounds once: launch it without fusion of products and sums. Where a dividend was too small or too
    large for a plain division, the last loop does all again by the division of the GPU; otherwise it has no rounds.
    """
    follow_previous()
    num_blocks = tl.cdiv(vocab, BLOCK)
    num_groups = tl.cdiv(num_nodes, GROUP)
    # Programs in a row have neighbouring tokens of the same nodes, and so few pages of memory among them.
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
    row_1 = read_row(logits_ptr, row, row_stride, is_token)
    row_2 = read_row(logits_ptr, row + 1, row_stride, is_token & (begin + 1 < end))
    row_3 = read_row(logits_ptr, row + 2, row_stride, is_token & (begin + 2 < end))
    row_4 = read_row(logits_ptr, row + 3, row_stride, is_token & (begin + 3 < end))
    counts = tl.load(token_counts_ptr + request * vocab + token, mask=is_token, other=0)
    repetition = tl.load(repetition_penalty_ptr + request)
    penalties = (tl.load(frequency_penalty_ptr + request), tl.load(presence_penalty_ptr + request), repetition)
    inverse = tl.math.div_rn(1.0, repetition)
    # The drafts among these tokens, of which few programs have any. The root is output, which has its count.
    drafted = tl.arange(0, NODES)
    draft = tl.full([NODES], -1, dtype=tl.int32)
    if EXACT:
        is_draft = (drafted > 0) & (drafted < num_nodes)
        draft = tl.load(draft_token_ptr + request * num_nodes + drafted, mask=is_draft, other=-1).to(tl.int32) - first
    least = tl.full([BLOCK // UNIT], LEAST_PLAIN, dtype=tl.float32)
    most = tl.full([BLOCK // UNIT], LEAST_PLAIN, dtype=tl.float32)
    for node in range(begin, end):
        count = count_drafts(counts, row, num_nodes, tree_mask_ptr, draft, NODES, BLOCK)
        logit, factor = take_away(row_1, count, penalties)
        row_1, row_2, row_3 = row_2, row_3, row_4
        row_4 = read_row(logits_ptr, row + 4, row_stride, is_token & (node + 4 < end))
        is_divided = logit > 0
        dividend = tl.reshape(tl.where(is_divided, logit, LEAST_PLAIN), [BLOCK // UNIT, UNIT])
        least = tl.minimum(least, tl.min(dividend, axis=1))
        most = tl.maximum(most, tl.max(dividend, axis=1))
        quotient = divide_plain(logit, factor, tl.where(count > 0, inverse, 1.0))
        penalised = tl.where(is_divided, quotient, logit * factor)
        tl.store(penalised_logits_ptr + row * vocab + token, penalised, mask=is_token)
        row += 1
    is_plain = (tl.min(least, axis=0) >= LEAST_PLAIN) & (tl.max(most, axis=0) <= MOST_PLAIN)
    for node in range(begin, tl.where(is_plain, begin, end)):
        row = request * num_nodes + node
        count = count_drafts(counts, row, num_nodes, tree_mask_ptr, draft, NODES, BLOCK)
        logit, factor = take_away(read_row(logits_ptr, row, row_stride, is_token), count, penalties)
        penalised = tl.where(logit > 0, tl.math.div_rn(logit, factor), logit * factor)
        tl.store(penalised_logits_ptr + row * vocab + token, penalised, mask=is_token)
