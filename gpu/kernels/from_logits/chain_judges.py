"""Drafts of chains, judged by what is known of their rows; a ``walk`` and a ``source`` are as in ``chain_rows``.

``record_ptrs`` point to where a walk ends, or may end, level by level: integers (accepted drafts, the rejected draft or
-1, the token of a greedy request or -1), numbers in float64 (largest logit of the target's row, and what turns weights
into probabilities, then of the draft's; with filters the weight itself), and the least logit that filters keep.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN
from specsim.gpu.kernels.from_logits.thresholds import LOG2_E, weigh

MOST_EXPONENT, MOST_BITS = tl.constexpr(600.0), tl.constexpr(100.0)
"""Exponents of e and of 2 whose powers exceed all that they are compared with, and times a weight are still numbers."""


@triton.jit
def join_blocks(
    known_ptrs, row, is_row, num_blocks, temperature, is_greedy, PRECISE: tl.constexpr, BLOCKS: tl.constexpr
):
    """Return the largest logit and the weight of each row of a tile, from what is known of its blocks.

    The largest logit of what is no row is 0, and its weight 0, as is that of a row of a greedy request.
    """
    block = tl.arange(0, BLOCKS)[None, :]
    place = row[:, None] * num_blocks + block
    # NOTE: programs of the same launch may have written them, so that no old copy will do.
    is_block = is_row[:, None] & (block < num_blocks)
    block_max = tl.load(known_ptrs[0] + place, mask=is_block, other=float("-inf"), cache_modifier=".cg")
    is_weighed = is_row[:, None] & (block < tl.where(is_greedy, 0, num_blocks))
    block_mass = tl.load(known_ptrs[1] + place, mask=is_weighed, other=0.0, cache_modifier=".cg")
    largest = tl.max(block_max, axis=1)
    base = tl.where(largest > float("-inf"), largest, 0.0)
    weight = weigh(block_max, base[:, None], temperature, PRECISE).to(tl.float64)
    # NOTE: fused with the sum, a product is rounded another way in each thread that holds the row, and those differ.
    return base, tl.sum(tl.where(is_weighed, block_mass * weight, 0.0), axis=1)


@triton.jit
def choose(known_ptrs, row, is_row, num_blocks, BLOCKS: tl.constexpr):
    """Return the first token that has the largest logit of each row of a tile."""
    block = tl.arange(0, BLOCKS)[None, :]
    place = row[:, None] * num_blocks + block
    is_block = is_row[:, None] & (block < num_blocks)
    block_max = tl.load(known_ptrs[0] + place, mask=is_block, other=float("-inf"), cache_modifier=".cg")
    choice = tl.load(known_ptrs[2] + place, mask=is_block, other=NO_TOKEN, cache_modifier=".cg")
    return tl.min(tl.where(block_max == tl.max(block_max, axis=1)[:, None], choice, NO_TOKEN), axis=1)


@triton.jit
def accepts(
    logit,
    largest,
    total,
    temperature,
    draft_logit,
    draft_law,
    draft_temperature,
    is_drawn,
    coin,
    PRECISE: tl.constexpr = True,
):
    """Return whether drafts are accepted: whether p exceeds the coin times q.

    ``draft_law`` is the largest logit and the weight of the draft's row. A draft that is not drawn is certain.
    """
    warmth = tl.where(draft_temperature == 0, 1.0, draft_temperature).to(tl.float64)
    is_possible = (draft_logit > float("-inf")) | (is_drawn == 0)
    offered = tl.where(is_drawn & is_possible, draft_logit, draft_law[0]).to(tl.float64) - draft_law[0].to(tl.float64)
    wanted = logit.to(tl.float64) - largest.to(tl.float64)
    exponent = wanted * (1.0 / temperature.to(tl.float64)) - offered * (1.0 / warmth)
    draft_total = tl.where(is_drawn, draft_law[1], 1.0)
    # NOTE: a ratio may be too large for a number, or so small that it is 0, which matters for a coin of 0 alone.
    if PRECISE:
        is_beyond = tl.exp(tl.minimum(exponent, MOST_EXPONENT)) * draft_total > coin.to(tl.float64) * total
    else:
        ratio = tl.exp2(tl.minimum((exponent * LOG2_E).to(tl.float32), MOST_BITS))
        is_beyond = ratio * draft_total.to(tl.float32) > coin * total.to(tl.float32)
    return is_possible & (logit > float("-inf")) & ((coin == 0) | is_beyond)


@triton.jit
def invert(number):
    """Return 1 by a float32, which a step after an approximate quotient rounds as it should be, or nearly."""
    inverse = 1.0 / number
    return tl.fma(inverse, tl.fma(-number, inverse, tl.full(number.shape, 1.0, dtype=tl.float32)), inverse)


@triton.jit
def judge(
    first_level,
    walk,
    source,
    draft_tokens_ptr,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    LEVELS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Judge the drafts of some levels; return the levels, whether each draft is accepted, and how a walk ends there.

    A walk ends with the draft rejected there, -1 if there is none; the choice of a greedy request, otherwise -1; and of
    both rows the largest logit, and what turns weights into probabilities.
    """
    request, start, length, temperature, draft_temperature = walk
    statistic_ptrs, row_sizes = source[2], source[3]
    num_blocks, vocab = row_sizes[0], row_sizes[1]
    level = first_level + tl.arange(0, LEVELS)
    place = start + level
    is_draft = level < length
    is_greedy = temperature == 0
    warmth = tl.where(is_greedy, 1.0, temperature)
    # All that is known is asked for before any of it is used.
    token = tl.load(draft_tokens_ptr + place, mask=is_draft, other=-1)
    score_ptr = statistic_ptrs[5] + place * 3
    coin = tl.load(score_ptr + 2, mask=is_draft, other=0.0, cache_modifier=".cg")
    logit = tl.load(score_ptr, mask=is_draft, other=float("-inf"), cache_modifier=".cg")
    row, is_row = place + request, level <= length
    known_ptrs = (statistic_ptrs[0], statistic_ptrs[1], statistic_ptrs[2])
    largest, total = join_blocks(known_ptrs, row, is_row, num_blocks, warmth, is_greedy, PRECISE, BLOCKS)
    draft_logit = tl.zeros_like(largest)
    draft_largest = tl.zeros_like(largest)
    draft_total = tl.zeros_like(total)
    is_drawn = (is_greedy == 0) & (draft_temperature > 0) & HAS_DRAFT
    if HAS_DRAFT:
        is_read = level < tl.where(is_drawn, length, 0)
        draft_logit = tl.load(score_ptr + 1, mask=is_read, other=float("-inf"), cache_modifier=".cg")
        of_draft_ptrs = (statistic_ptrs[3], statistic_ptrs[4], statistic_ptrs[2])
        draft_warmth = tl.where(is_drawn, draft_temperature, 1.0)
        draft_largest, draft_total = join_blocks(
            of_draft_ptrs, place, is_read, num_blocks, draft_warmth, False, PRECISE, BLOCKS
        )
    total = tl.where(total > 0, total, 1.0)
    draft_total = tl.where(draft_total > 0, draft_total, 1.0)
    is_token = (token >= 0) & (token < vocab)
    draft_law = (draft_largest, draft_total)
    is_accepted = accepts(
        logit, largest, total, warmth, draft_logit, draft_law, draft_temperature, is_drawn & is_token, coin, PRECISE
    )
    choice = tl.zeros_like(largest).to(tl.int32) - 1
    if is_greedy:
        choice = choose(known_ptrs, row, is_row, num_blocks, BLOCKS)
        is_accepted = token == choice
    is_accepted = is_token & is_accepted
    rejected = tl.where(is_token, token, -1).to(tl.int32)
    if PRECISE:
        scales = (1.0 / total, 1.0 / draft_total)
    else:
        scales = (invert(total.to(tl.float32)), invert(draft_total.to(tl.float32)))
    laws = (largest, scales[0], draft_largest, scales[1])
    return level, is_accepted, rejected, choice, laws


@triton.jit
def end_of(judged):
    """Return the first level whose draft is not accepted, and how the walk ends there, where all levels are judged."""
    level, is_accepted, rejected, chosen, laws = judged
    last = tl.min(tl.where(is_accepted, NO_TOKEN, level), axis=0)
    is_last = level == last
    return (
        last,
        tl.max(tl.where(is_last, rejected, -1), axis=0),
        tl.max(tl.where(is_last, chosen, -1), axis=0),
        (
            tl.sum(tl.where(is_last, laws[0], 0.0), axis=0),
            tl.sum(tl.where(is_last, laws[1], 0.0), axis=0),
            tl.sum(tl.where(is_last, laws[2], 0.0), axis=0),
            tl.sum(tl.where(is_last, laws[3], 0.0), axis=0),
        ),
    )


@triton.jit
def write_record(record_ptrs, place, last, rejected, chosen, laws, mask=None):
    """Write down where a walk ends, or for several levels that it may."""
    record_ptr, law_ptr = record_ptrs[0] + place * 4, record_ptrs[1] + place * 4
    tl.store(record_ptr, last, mask=mask)
    tl.store(record_ptr + 1, rejected, mask=mask)
    tl.store(record_ptr + 2, chosen, mask=mask)
    tl.store(law_ptr, laws[0], mask=mask)
    tl.store(law_ptr + 1, laws[1], mask=mask)
    tl.store(law_ptr + 2, laws[2], mask=mask)
    tl.store(law_ptr + 3, laws[3], mask=mask)


@triton.jit
def read_record(record_ptrs, place):
    """Return what ``write_record`` has written, also when that was in the same launch."""
    record_ptr, law_ptr = record_ptrs[0] + place * 4, record_ptrs[1] + place * 4
    last = tl.load(record_ptr, cache_modifier=".cg")
    rejected = tl.load(record_ptr + 1, cache_modifier=".cg")
    chosen = tl.load(record_ptr + 2, cache_modifier=".cg")
    laws = (
        tl.load(law_ptr, cache_modifier=".cg"),
        tl.load(law_ptr + 1, cache_modifier=".cg"),
        tl.load(law_ptr + 2, cache_modifier=".cg"),
        tl.load(law_ptr + 3, cache_modifier=".cg"),
    )
    return last, rejected, chosen, laws


@triton.jit
def write_drafts(output_ptrs, draft_tokens_ptr, walk, last, max_num_drafts, WIDTH: tl.constexpr):
    """Write the accepted drafts of a request, and -1 after the token that follows them, which is not written."""
    request, start, length = walk[0], walk[1], walk[2]
    place = tl.arange(0, WIDTH)
    token = tl.load(draft_tokens_ptr + start + place, mask=place < length, other=-1)
    output = tl.where(place < last, token, -1).to(tl.int32)
    is_written = (place <= max_num_drafts) & (place != last)
    tl.store(output_ptrs[0] + request * (max_num_drafts + 1) + place, output, mask=is_written)
    tl.store(output_ptrs[1] + request, last)
