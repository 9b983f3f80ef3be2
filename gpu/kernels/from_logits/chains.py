"""Chains from raw logits: walks to their ends, and what is drawn there.

``progress_ptr`` points to three numbers a request: 1 + the level that is to be read, or -1 after the walk; how many
programs have read; how many have added up what is left. A ``walk`` and a ``source`` are as in ``chain_rows``.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.chain_judges import judge, read_record, write_drafts, write_record
from specsim.gpu.kernels.from_logits.chain_rests import add_up, pick
from specsim.gpu.kernels.from_logits.chain_rows import read_unit, walk_of

JUDGES = tl.constexpr(0)
"""All rows have been read: every program of a request judges its drafts by itself."""

WALKS = tl.constexpr(1)
"""Rows are read level after level: the last program to have read a level judges its draft."""

FILTERS = tl.constexpr(2)
"""Launches before have judged, and have found which logits are kept."""

READ, LEFT = tl.constexpr(1), tl.constexpr(2)
"""Places of the two counts of a request among its numbers of progress; those of requests are four apart."""


@triton.jit
def end_or_go_on(
    first_level,
    num_levels,
    judged,
    walk,
    record_ptrs,
    progress_ptr,
    draft_tokens_ptr,
    output_ptrs,
    max_num_drafts,
    WIDTH: tl.constexpr,
):
    """Write down that a walk ends at one of the levels that were judged, or that the one after them is to be read."""
    last, rejected, chosen, laws = judged
    is_over = last < first_level + num_levels
    if is_over:
        write_record(record_ptrs, walk[0], last, rejected, chosen, laws)
        write_drafts(output_ptrs, draft_tokens_ptr, walk, last, max_num_drafts, WIDTH)
    # All threads have stored before one of them says so.
    tl.debug_barrier()
    tl.atomic_xchg(progress_ptr + walk[0] * 4, tl.where(is_over, -1, first_level + num_levels + 1), sem="release")


@triton.jit
def draw_rest(
    part,
    walk,
    ended,
    source,
    least,
    coin,
    mass_ptr,
    progress_ptr,
    output_ptr,
    rest_shares,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    TILE: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Add up some blocks of what a request draws from; the last of its programs to be done draws."""
    programs_per_rest, blocks_per_program, num_rest_blocks = rest_shares
    request, start, _, temperature, draft_temperature = walk
    last, rejected, _, laws = ended
    target_logits_ptr, draft_logits_ptr, _, row_sizes = source
    _, vocab, target_row_stride, target_column_stride, draft_vocab, draft_row_stride, draft_column_stride = row_sizes
    is_drawn = (draft_temperature > 0) & HAS_DRAFT
    row_ptr = target_logits_ptr + (start + request + last) * target_row_stride
    target_row = (row_ptr, vocab, target_column_stride, laws[0].to(tl.float32), temperature, least)
    draft_row = target_row
    if HAS_DRAFT:
        row_ptr = draft_logits_ptr + (start + last) * draft_row_stride
        warmth = tl.where(is_drawn, draft_temperature, 1.0)
        draft_row = (row_ptr, draft_vocab, draft_column_stride, laws[2].to(tl.float32), warmth, least)
    scales = (1.0 / laws[1], 1.0 / laws[3])
    if not PRECISE:
        scales = (scales[0].to(tl.float32), scales[1].to(tl.float32))
    rest = (target_row, draft_row, scales, is_drawn)
    first = part * blocks_per_program
    end = tl.minimum(first + blocks_per_program, num_rest_blocks)
    add_up(first, end, mass_ptr, rest, rejected, HAS_DRAFT, PRECISE, TILE)
    # All threads have stored before one of them says so.
    tl.debug_barrier()
    num_left = tl.atomic_add(progress_ptr + request * 4 + LEFT, 1, sem="acq_rel")
    if num_left == programs_per_rest - 1:
        place = tl.arange(0, PARTS)
        is_part = place < num_rest_blocks * TILE[0]
        part_mass = tl.load(mass_ptr + place, mask=is_part, other=0.0, volatile=True)
        if (tl.sum(part_mass, axis=0) == 0) & (rejected >= 0):
            # Rounding alone has rejected the draft, or neither row can choose it: p is what is left.
            rejected = tl.full([], -1, dtype=tl.int32)
            add_up(0, num_rest_blocks, mass_ptr, rest, rejected, HAS_DRAFT, PRECISE, TILE)
            tl.debug_barrier()
            part_mass = tl.load(mass_ptr + place, mask=is_part, other=0.0, volatile=True)
        tl.store(output_ptr, pick(part_mass, coin, rest, rejected, HAS_DRAFT, PRECISE, TILE, PARTS))


@triton.jit(do_not_specialize=["num_requests", "num_drafted", "max_num_drafts"])
def _walk_chains_kernel(
    draft_ptrs,
    request_ptrs,
    target_logits_ptr,
    draft_logits_ptr,
    statistic_ptrs,
    record_ptrs,
    progress_ptr,
    part_mass_ptr,
    output_ptrs,
    num_requests,
    num_drafted,
    max_num_drafts,
    level_shares,
    rest_shares,
    row_sizes,
    MODE: tl.constexpr,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    WIDTHS: tl.constexpr,
    TILES: tl.constexpr,
):
    """Walk to the end of each chain, add up what is left of its last row, and draw.

    With WALKS the first programs, one a request, judge the levels that the launch before has read; those after them
    read level after level, all requests of one level first, as long as their request's walk goes on. The last programs,
    in any mode, add up some blocks of a request's last row each, and the last of them to be done draws. A program waits
    for programs of lower number alone, which have started before it.
    """
    WIDTH: tl.constexpr = WIDTHS[0]
    LEVELS: tl.constexpr = WIDTHS[1]
    BLOCKS: tl.constexpr = WIDTHS[2]
    REST_PARTS: tl.constexpr = WIDTHS[3]
    TILE: tl.constexpr = (TILES[0], TILES[1])
    REST_TILE: tl.constexpr = (TILES[2], TILES[3], TILES[4])
    source = (target_logits_ptr, draft_logits_ptr, statistic_ptrs, row_sizes)
    first_level, programs_per_level, units_per_program = level_shares
    programs_per_rest, num_rest_blocks = rest_shares[0], rest_shares[2]
    units_per_level = (1 + HAS_DRAFT) * row_sizes[0]
    # Programs that judge first have a negative number among those that read, and those that draw one beyond the last.
    reading = tl.program_id(0)
    num_reading = 0
    request = (reading // programs_per_rest).to(tl.int64)
    if MODE == WALKS:
        reading -= num_requests
        num_reading = (max_num_drafts + 1 - first_level) * num_requests * programs_per_level
        request = (reading - num_reading) // programs_per_rest
        request = tl.where(reading < num_reading, reading // programs_per_level % num_requests, request)
        request = tl.where(reading < 0, reading + num_requests, request).to(tl.int64)
    walk = walk_of(request, request_ptrs, num_drafted, max_num_drafts)
    own_progress_ptr = progress_ptr + request * 4
    if reading >= num_reading:
        part = (reading - num_reading) % programs_per_rest
        coin = tl.load(request_ptrs[3] + request).to(tl.float64)
        least = tl.full([], float("-inf"), dtype=tl.float32)
        if MODE == JUDGES:
            ended = judge(0, walk, source, draft_ptrs, HAS_DRAFT, PRECISE, LEVELS, BLOCKS)
            if part == 0:
                write_drafts(output_ptrs, draft_ptrs[0], walk, ended[0], max_num_drafts, WIDTH)
        else:
            if MODE == WALKS:
                while tl.atomic_add(own_progress_ptr, 0, sem="acquire") >= 0:
                    pass
            ended = read_record(record_ptrs, request)
            if MODE == FILTERS:
                least = tl.load(record_ptrs[2] + request)
        output_ptr = output_ptrs[0] + request * (max_num_drafts + 1) + ended[0]
        if ended[2] >= 0:
            tl.store(output_ptr, ended[2])
        else:
            draw_rest(
                part,
                walk,
                ended,
                source,
                least,
                coin,
                part_mass_ptr + request * num_rest_blocks * REST_TILE[0],
                progress_ptr,
                output_ptr,
                rest_shares,
                HAS_DRAFT,
                PRECISE,
                REST_TILE,
                REST_PARTS,
            )
    elif MODE == WALKS:
        if reading < 0:
            judged = judge(0, walk, source, draft_ptrs, HAS_DRAFT, PRECISE, LEVELS, BLOCKS)
            end_or_go_on(
                0,
                first_level,
                judged,
                walk,
                record_ptrs,
                progress_ptr,
                draft_ptrs[0],
                output_ptrs,
                max_num_drafts,
                WIDTH,
            )
        else:
            level = first_level + reading // programs_per_level // num_requests
            coming = tl.atomic_add(own_progress_ptr, 0, sem="acquire")
            while (coming >= 0) & (coming <= level):
                coming = tl.atomic_add(own_progress_ptr, 0, sem="acquire")
            if coming >= 0:
                first = reading % programs_per_level * units_per_program
                for unit in range(first, tl.minimum(first + units_per_program, units_per_level)):
                    read_unit(unit, level, walk, source, True, HAS_DRAFT, PRECISE, TILE)
                # All threads have stored before one of them says so.
                tl.debug_barrier()
                num_read = tl.atomic_add(own_progress_ptr + READ, 1, sem="acq_rel")
                if num_read == (level - first_level + 1) * programs_per_level - 1:
                    judged = judge(level, walk, source, draft_ptrs, HAS_DRAFT, PRECISE, 1, BLOCKS)
                    end_or_go_on(
                        level,
                        1,
                        judged,
                        walk,
                        record_ptrs,
                        progress_ptr,
                        draft_ptrs[0],
                        output_ptrs,
                        max_num_drafts,
                        WIDTH,
                    )
