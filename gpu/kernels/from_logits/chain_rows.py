"""Rows of chains, read in blocks.

``statistic_ptrs`` point to what is known of each block of each row: of the target its largest logit, its weight
relative to that, and the first token that has it, which greedy requests alone need; of the draft the first two; and of
each drafted token its logit in both rows, and its coin. ``known_ptrs`` are those of one side, and the third. A
``walk`` is a request, where its drafts start and how many there are, and its two temperatures; a ``source`` is the
logits of target and draft, the statistics, and the sizes of rows: blocks, then of either side its vocabulary and its
strides.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN
from specsim.gpu.kernels.from_logits.thresholds import read_logits, weigh


@triton.jit
def walk_of(request, request_ptrs, num_drafted, max_num_drafts):
    """Return the walk of a request; pointers are to offsets and to both temperatures, and more may follow."""
    cu_num_drafts_ptr, temperature_ptr, draft_temperature_ptr = request_ptrs[0], request_ptrs[1], request_ptrs[2]
    start = tl.load(cu_num_drafts_ptr + request).to(tl.int64)
    start = tl.minimum(tl.maximum(start, 0), num_drafted)
    end = tl.minimum(tl.load(cu_num_drafts_ptr + request + 1).to(tl.int64), num_drafted)
    length = tl.maximum(tl.minimum(end - start, max_num_drafts), 0).to(tl.int32)
    return request, start, length, tl.load(temperature_ptr + request), tl.load(draft_temperature_ptr + request)


@triton.jit
def tokens_of_block(block, TILE: tl.constexpr):
    """Return the tokens of a block: a tile of units of a few neighbours each, as many as a thread loads at once."""
    UNITS: tl.constexpr = TILE[0]
    UNIT: tl.constexpr = TILE[1]
    return block * (UNITS * UNIT) + tl.arange(0, UNITS)[:, None] * UNIT + tl.arange(0, UNIT)[None, :]


@triton.jit
def read_block_of(row, block, temperature, known_ptrs, place, score, PRECISE: tl.constexpr, TILE: tl.constexpr):
    """Read one block of a row, which is a pointer, a number of logits and a stride, and write what is known of it.

    ``score`` is a token, where its logit is to be written, and whether it is.
    """
    max_ptr, mass_ptr, choice_ptr = known_ptrs
    drafted, score_ptr, is_scored = score
    token = tokens_of_block(block, TILE)
    logit = read_logits(row[0], token, row[1], row[2])
    tl.store(score_ptr, read_logits(row[0], drafted, row[1], row[2]), mask=is_scored)
    largest = tl.max(tl.max(logit, axis=1), axis=0)
    tl.store(max_ptr + place, largest)
    if temperature == 0:
        choice = tl.min(tl.where(logit == largest, token, NO_TOKEN), axis=1)
        tl.store(choice_ptr + place, tl.min(choice, axis=0))
    else:
        weight = weigh(logit, tl.where(largest > float("-inf"), largest, 0.0), temperature, PRECISE)
        # NOTE: few neighbours are added in float32 and their sums in float64, so that equal weights do not drift.
        tl.store(mass_ptr + place, tl.sum(tl.sum(weight, axis=1).to(tl.float64), axis=0))


@triton.jit
def read_unit(
    unit,
    level,
    walk,
    source,
    draft_ptrs,
    READS_TARGET: tl.constexpr,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Read one block of a level: of the target's row first, then of the draft's.

    A request has a row of the target more than drafts. No row of the draft is read where drafts are certain.
    """
    request, start, length, temperature, draft_temperature = walk
    target_logits_ptr, draft_logits_ptr, statistic_ptrs, row_sizes = source
    num_blocks, vocab, target_row_stride, target_column_stride, draft_vocab, draft_row_stride, draft_column_stride = (
        row_sizes
    )
    block = unit % num_blocks
    is_scored = (level < length) & (block == 0)
    drafted = tl.load(draft_ptrs[0] + start + level, mask=is_scored, other=-1)
    coin = tl.load(draft_ptrs[1] + start + level, mask=is_scored, other=0.0)
    score_ptr = statistic_ptrs[5] + (start + level) * 3
    is_of_target = READS_TARGET & (unit < num_blocks)
    if is_of_target:
        if level <= length:
            place = start + request + level
            row = (target_logits_ptr + place * target_row_stride, vocab, target_column_stride)
            known_ptrs = (statistic_ptrs[0], statistic_ptrs[1], statistic_ptrs[2])
            score = (drafted, score_ptr, is_scored)
            tl.store(score_ptr + 2, coin, mask=is_scored)
            read_block_of(row, block, temperature, known_ptrs, place * num_blocks + block, score, PRECISE, TILE)
    elif HAS_DRAFT:
        place = start + level
        if (level < length) & (temperature > 0) & (draft_temperature > 0):
            row = (draft_logits_ptr + place * draft_row_stride, draft_vocab, draft_column_stride)
            known_ptrs = (statistic_ptrs[3], statistic_ptrs[4], statistic_ptrs[2])
            score = (drafted, score_ptr + 1, is_scored)
            read_block_of(row, block, draft_temperature, known_ptrs, place * num_blocks + block, score, PRECISE, TILE)


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts", "num_levels", "units_per_program"])
def _read_chain_rows_kernel(
    draft_ptrs,
    request_ptrs,
    target_logits_ptr,
    draft_logits_ptr,
    statistic_ptrs,
    count_ptrs,
    num_drafted,
    max_num_drafts,
    num_levels,
    units_per_program,
    row_sizes,
    READS_TARGET: tl.constexpr,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    TILE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Read some blocks of the rows of a request's first levels; the first program of a request clears its counts."""
    follow_previous()
    request = tl.program_id(0).to(tl.int64)
    walk = walk_of(request, request_ptrs, num_drafted, max_num_drafts)
    source = (target_logits_ptr, draft_logits_ptr, statistic_ptrs, row_sizes)
    if tl.program_id(1) == 0:
        tl.store(count_ptrs[0] + request * 4 + tl.arange(0, 4), 0)
        level = tl.arange(0, WIDTH)
        known_ptr = count_ptrs[1] + request * (max_num_drafts + 1) * 2 + level
        tl.store(known_ptr, 0, mask=level <= max_num_drafts)
        tl.store(known_ptr + max_num_drafts + 1, 0, mask=level <= max_num_drafts)
    units_per_level = (READS_TARGET + HAS_DRAFT) * row_sizes[0]
    first = tl.program_id(1) * units_per_program
    for unit in range(first, tl.minimum(first + units_per_program, num_levels * units_per_level)):
        level = unit // units_per_level
        read_unit(unit % units_per_level, level, walk, source, draft_ptrs, READS_TARGET, HAS_DRAFT, PRECISE, TILE)
