"""Chains from raw logits whose drafts are judged together, as a block, from all of their rows.

``row_filter_ptrs`` point to temperature, top-k, top-p and min-p of every row of the target, and ``law_ptrs`` to what is
known of such a row: its largest logit, the weight of what its filters keep relative to that, the least logit kept, and
the choice of a greedy request. ``front_ptrs`` point to numbers of every front of a request's drafts: its share of the
target, and the weights of the parts of what it leaves. A ``walk`` and a ``source`` are as in ``chain_rows``.
"""

import triton
import triton.language as tl

from specsim.contracts import logit_rows
from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.chain_judges import (
    MOST_EXPONENT,
    choose,
    join_blocks,
    write_drafts,
    write_record,
)
from specsim.gpu.kernels.from_logits.chain_rests import add_up
from specsim.gpu.kernels.from_logits.chain_rows import walk_of
from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN
from specsim.gpu.kernels.from_logits.row_filters import filter_row

EVERY_TOKEN = tl.constexpr(logit_rows.EVERY_TOKEN)


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts"])
def _spread_filters_kernel(
    request_ptrs,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    row_filter_ptrs,
    progress_ptr,
    num_drafted,
    max_num_drafts,
    WIDTH: tl.constexpr,
):
    """Write a request's parameters for each of its rows, filters that a call leaves out included; clear its counts."""
    follow_previous()
    request, start, length, temperature, _ = walk_of(
        tl.program_id(0).to(tl.int64), request_ptrs, num_drafted, max_num_drafts
    )
    level = tl.arange(0, WIDTH)
    is_row = level <= length
    row = start + request + level
    top_k = EVERY_TOKEN if top_k_ptr is None else tl.load(top_k_ptr + request)
    top_p = 1.0 if top_p_ptr is None else tl.load(top_p_ptr + request)
    min_p = 0.0 if min_p_ptr is None else tl.load(min_p_ptr + request)
    tl.store(row_filter_ptrs[0] + row, temperature, mask=is_row)
    tl.store(row_filter_ptrs[1] + row, top_k, mask=is_row)
    tl.store(row_filter_ptrs[2] + row, top_p, mask=is_row)
    tl.store(row_filter_ptrs[3] + row, min_p, mask=is_row)
    tl.store(progress_ptr + request * 4 + tl.arange(0, 4), 0)


@triton.jit
def _filter_chain_rows_kernel(
    target_logits_ptr,
    row_filter_ptrs,
    walk_ptrs,
    law_ptrs,
    num_chunks,
    vocab,
    row_stride,
    column_stride,
    CHUNKS: tl.constexpr,
    PRECISE: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
):
    """Filter one row of the target by what its chunks have left, and write down its law."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    temperature = tl.load(row_filter_ptrs[0] + row)
    top_p = tl.load(row_filter_ptrs[2] + row).to(tl.float64)
    min_p = tl.load(row_filter_ptrs[3] + row).to(tl.float64)
    is_greedy = temperature == 0
    filters = (tl.where(is_greedy, 1, tl.load(row_filter_ptrs[1] + row)), top_p, min_p)
    filtered, _, _, _, kept = filter_row(
        target_logits_ptr + row * row_stride,
        row,
        tl.where(is_greedy, 1.0, temperature),
        filters,
        is_greedy,
        walk_ptrs,
        (num_chunks, vocab, column_stride),
        (0, 0, 0, 0),
        CHUNKS,
        SEARCH,
        SHIFT,
        PRECISE,
    )
    tl.store(law_ptrs[0] + row, filtered[3])
    tl.store(law_ptrs[1] + row, kept[2])
    tl.store(law_ptrs[2] + row, kept[0])
    tl.store(law_ptrs[3] + row, kept[1])


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts"])
def _join_chain_rows_kernel(
    request_ptrs,
    statistic_ptrs,
    law_ptrs,
    num_drafted,
    max_num_drafts,
    num_blocks,
    PRECISE: tl.constexpr,
    WIDTHS: tl.constexpr,
):
    """Join what is known of blocks of a request's rows, which nothing filters, and write down their laws."""
    follow_previous()
    LEVELS: tl.constexpr = WIDTHS[0]
    BLOCKS: tl.constexpr = WIDTHS[1]
    request, start, length, temperature, _ = walk_of(
        tl.program_id(0).to(tl.int64), request_ptrs, num_drafted, max_num_drafts
    )
    level = tl.arange(0, LEVELS)
    row, is_row = start + request + level, level <= length
    is_greedy = temperature == 0
    known_ptrs = (statistic_ptrs[0], statistic_ptrs[1], statistic_ptrs[2])
    warmth = tl.where(is_greedy, 1.0, temperature)
    largest, mass = join_blocks(known_ptrs, row, is_row, num_blocks, warmth, is_greedy, PRECISE, BLOCKS)
    choice = tl.full([LEVELS], NO_TOKEN, dtype=tl.int32)
    if is_greedy:
        choice = choose(known_ptrs, row, is_row, num_blocks, BLOCKS)
    tl.store(law_ptrs[0] + row, largest, mask=is_row)
    tl.store(law_ptrs[1] + row, tl.where(is_greedy, 1.0, mass), mask=is_row)
    tl.store(law_ptrs[2] + row, tl.where(is_greedy, largest, float("-inf")), mask=is_row)
    tl.store(law_ptrs[3] + row, choice, mask=is_row)


@triton.jit
def ratios_of(
    walk,
    source,
    draft_tokens_ptr,
    law_ptrs,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    LEVELS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Return how many drafts a request has before any -1, their tokens, p / q of each, and the laws of draft rows.

    For a greedy request the ratio is 1 where the draft is the target's choice, and 0 elsewhere.
    """
    request, start, length, temperature, draft_temperature = walk
    target_logits_ptr, draft_logits_ptr, statistic_ptrs, row_sizes = source
    num_blocks, vocab, target_row_stride, target_column_stride, draft_vocab, draft_row_stride, draft_column_stride = (
        row_sizes
    )
    level = tl.arange(0, LEVELS)
    token = tl.load(draft_tokens_ptr + start + level, mask=level < length, other=-1)
    is_token = (token >= 0) & (token < vocab)
    num_drafts = tl.min(tl.where(is_token, LEVELS, level), axis=0)
    is_draft = level < num_drafts
    row = start + request + level
    logit_ptr = target_logits_ptr + row * target_row_stride + token * target_column_stride
    logit = tl.load(logit_ptr, mask=is_draft, other=float("-inf")).to(tl.float32)
    largest = tl.load(law_ptrs[0] + row, mask=is_draft, other=0.0)
    mass = tl.load(law_ptrs[1] + row, mask=is_draft, other=1.0)
    least = tl.load(law_ptrs[2] + row, mask=is_draft, other=0.0)
    choice = tl.load(law_ptrs[3] + row, mask=is_draft, other=-1)
    is_greedy = temperature == 0
    warmth = tl.where(is_greedy, 1.0, temperature).to(tl.float64)
    wanted = (logit.to(tl.float64) - largest.to(tl.float64)) / warmth - tl.log(tl.where(mass > 0, mass, 1.0))
    is_possible = (logit > float("-inf")) & (logit >= least)
    offered = tl.zeros_like(wanted)
    draft_largest = tl.zeros_like(largest)
    draft_mass = tl.zeros_like(mass) + 1.0
    if HAS_DRAFT:
        is_drawn = (is_greedy == 0) & (draft_temperature > 0)
        is_read = level < tl.where(is_drawn, num_drafts, 0)
        logit_ptr = draft_logits_ptr + (start + level) * draft_row_stride + token * draft_column_stride
        draft_logit = tl.load(logit_ptr, mask=is_read & (token < draft_vocab), other=float("-inf")).to(tl.float32)
        draft_warmth = tl.where(is_drawn, draft_temperature, 1.0)
        known_ptrs = (statistic_ptrs[3], statistic_ptrs[4], statistic_ptrs[2])
        draft_largest, draft_mass = join_blocks(
            known_ptrs, start + level, is_read, num_blocks, draft_warmth, False, PRECISE, BLOCKS
        )
        draft_mass = tl.where(draft_mass > 0, draft_mass, 1.0)
        log_q = (draft_logit.to(tl.float64) - draft_largest.to(tl.float64)) / draft_warmth.to(tl.float64)
        offered = tl.where(is_read, log_q - tl.log(draft_mass), 0.0)
        is_possible = is_possible & ((draft_logit > float("-inf")) | (is_read == 0))
    ratio = tl.exp(tl.minimum(tl.where(is_possible, wanted - offered, 0.0), MOST_EXPONENT))
    ratio = tl.where(is_possible, ratio, 0.0)
    if is_greedy:
        ratio = tl.where(token == choice, 1.0, 0.0).to(tl.float64)
    return num_drafts, token, ratio, (draft_largest, draft_mass)


@triton.jit
def at(place, values, chosen):
    """Return one of some numbers, whatever the others are."""
    return tl.sum(tl.where(place == chosen, values, 0), axis=0)


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts", "units_per_program"])
def _weigh_chain_fronts_kernel(
    draft_ptrs,
    request_ptrs,
    target_logits_ptr,
    draft_logits_ptr,
    statistic_ptrs,
    law_ptrs,
    front_ptrs,
    num_drafted,
    max_num_drafts,
    num_rest_blocks,
    units_per_program,
    row_sizes,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    WIDTHS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Multiply up the shares of one request's fronts, and add up some blocks of what each of them leaves.

    Every program of a request has all its shares, from two logits a draft. A unit of its work is a block of a row; the
    rows of fronts follow each other. What a front leaves matters where its share is neither 0 nor 1, and no front of
    all drafts leaves anything that is asked for.
    """
    follow_previous()
    LEVELS: tl.constexpr = WIDTHS[0]
    walk = walk_of(tl.program_id(0).to(tl.int64), request_ptrs, num_drafted, max_num_drafts)
    request, start, _, temperature, draft_temperature = walk
    source = (target_logits_ptr, draft_logits_ptr, statistic_ptrs, row_sizes)
    _, vocab, target_row_stride, target_column_stride, draft_vocab, draft_row_stride, draft_column_stride = row_sizes
    num_drafts, token, ratio, draft_laws = ratios_of(
        walk, source, draft_ptrs[0], law_ptrs, HAS_DRAFT, PRECISE, LEVELS, WIDTHS[1]
    )
    level = tl.arange(0, LEVELS)
    share = tl.full([], 1.0, dtype=tl.float64)
    shares = tl.where(level == 0, share, -1.0)
    for judged in range(0, num_drafts):
        share = tl.minimum(share * at(level, ratio, judged), 1.0)
        shares = tl.where(level == judged + 1, share, shares)
    front = request * (max_num_drafts + 1)
    if tl.program_id(1) == 0:
        tl.store(front_ptrs[0] + front + level, shares, mask=level <= max_num_drafts)

    is_drawn = (draft_temperature > 0) & HAS_DRAFT
    first = num_rest_blocks + tl.program_id(1) * units_per_program
    end = tl.minimum(first + units_per_program, num_drafts * num_rest_blocks)
    for unit in range(first, end):
        kept = unit // num_rest_blocks
        share = at(level, shares, kept)
        if (share > 0) & (share < 1):
            block = unit % num_rest_blocks
            law = start + request + kept
            row_ptr = target_logits_ptr + law * target_row_stride
            least = tl.load(law_ptrs[2] + law)
            target_row = (row_ptr, vocab, target_column_stride, tl.load(law_ptrs[0] + law), temperature, least)
            draft_row = target_row
            if HAS_DRAFT:
                row_ptr = draft_logits_ptr + (start + kept) * draft_row_stride
                warmth = tl.where(is_drawn, draft_temperature, 1.0)
                draft_row = (row_ptr, draft_vocab, draft_column_stride, at(level, draft_laws[0], kept), warmth, least)
            scales = (share / tl.load(law_ptrs[1] + law), 1.0 / at(level, draft_laws[1], kept))
            if not PRECISE:
                scales = (scales[0].to(tl.float32), scales[1].to(tl.float32))
            # NOTE: where a row is subtracted, the next draft may be left like any token: no token is the one to drop.
            dropped = tl.where(is_drawn, NO_TOKEN, at(level, token, kept).to(tl.int32))
            mass_ptr = front_ptrs[1] + (front + kept) * num_rest_blocks * TILE[0]
            rest = (target_row, draft_row, scales, is_drawn)
            add_up(block, block + 1, mass_ptr, rest, dropped, HAS_DRAFT, PRECISE, TILE)


@triton.jit(do_not_specialize=["num_drafted", "max_num_drafts", "num_parts"])
def _judge_chain_fronts_kernel(
    draft_ptrs,
    request_ptrs,
    statistic_ptrs,
    law_ptrs,
    front_ptrs,
    record_ptrs,
    output_ptrs,
    num_drafted,
    max_num_drafts,
    num_parts,
    row_sizes,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    WIDTHS: tl.constexpr,
    PART: tl.constexpr,
):
    """Keep one request's longest front whose coin says so, all coins at once, and write down what is drawn from.

    The share of a front is part of the target's weight there: as much less is left of its row.
    """
    follow_previous()
    LEVELS: tl.constexpr = WIDTHS[0]
    walk = walk_of(tl.program_id(0).to(tl.int64), request_ptrs, num_drafted, max_num_drafts)
    request, start, _, temperature, draft_temperature = walk
    level = tl.arange(0, LEVELS)
    front = request * (max_num_drafts + 1)
    share = tl.load(front_ptrs[0] + front + level, mask=level <= max_num_drafts, other=-1.0)
    num_drafts = tl.max(tl.where(share >= 0, level, 0), axis=0)
    is_inner = (level > 0) & (level < num_drafts) & (share > 0) & (share < 1)
    masses = tl.zeros([LEVELS, PART], dtype=tl.float64)
    for first in range(0, num_parts, PART):
        part = first + tl.arange(0, PART)
        is_summed = is_inner[:, None] & (part < num_parts)[None, :]
        place = (front + level)[:, None] * num_parts + part[None, :]
        masses += tl.load(front_ptrs[1] + place, mask=is_summed, other=0.0)
    mass = tl.sum(masses, axis=1)
    chance = tl.where(is_inner, mass / tl.where(is_inner, mass + 1 - share, 1.0), share)
    is_front = (level > 0) & (level <= num_drafts)
    coin = tl.load(draft_ptrs[1] + start + level - 1, mask=is_front, other=1.0).to(tl.float64)
    kept = tl.max(tl.where(is_front & (coin < chance), level, 0), axis=0)

    law = start + request + kept
    is_followed = kept < num_drafts
    token = tl.load(draft_ptrs[0] + start + kept, mask=is_followed, other=-1).to(tl.int32)
    choice = tl.load(law_ptrs[3] + law)
    chosen = tl.where((temperature == 0) & (choice < row_sizes[1]), choice, -1)
    target_mass = tl.load(law_ptrs[1] + law) / tl.where(is_followed, at(level, share, kept), 1.0)
    draft_largest = tl.zeros([], dtype=tl.float32)
    draft_mass = tl.zeros([], dtype=tl.float64) + 1.0
    if HAS_DRAFT:
        is_read = is_followed & (draft_temperature > 0) & (temperature > 0)
        if is_read:
            row = start + kept + tl.arange(0, 1)
            known_ptrs = (statistic_ptrs[3], statistic_ptrs[4], statistic_ptrs[2])
            joined = join_blocks(known_ptrs, row, row >= 0, row_sizes[0], draft_temperature, False, PRECISE, WIDTHS[1])
            draft_largest = tl.sum(joined[0], axis=0)
            draft_mass = tl.sum(joined[1], axis=0)
    laws = (tl.load(law_ptrs[0] + law).to(tl.float64), target_mass, draft_largest.to(tl.float64), draft_mass)
    write_record(record_ptrs, request, kept, token, chosen, laws)
    tl.store(record_ptrs[2] + request, tl.load(law_ptrs[2] + law))
    write_drafts(output_ptrs, draft_ptrs[0], walk, kept, max_num_drafts, LEVELS)
