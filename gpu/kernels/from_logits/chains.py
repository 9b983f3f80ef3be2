"""Chains from raw logits: walks to their ends, and what is drawn there.

``count_ptrs`` point to counts of a request, four apart, the first of which says how many programs have added up what is
left; and to two numbers a level: what is known of its draft, and how many programs have read. A ``walk`` and a
``source`` are as in ``chain_rows``.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.chain_judges import end_of, judge, read_record, write_drafts, write_record
from specsim.gpu.kernels.from_logits.chain_rests import add_up, pick
from specsim.gpu.kernels.from_logits.chain_rows import read_unit, walk_of

JUDGES = tl.constexpr(0)
"""All rows have been read: every program of a request judges its drafts by itself."""

WALKS = tl.constexpr(1)
"""Rows are read level after level until a draft is rejected: the last program to have read a level judges its draft."""

FILTERS = tl.constexpr(2)
"""Launches before have judged, and have found which logits are kept."""

ACCEPTED, ENDS = tl.constexpr(1), tl.constexpr(2)
"""What is known of the draft of a level, 0 before that: it is accepted, or the walk ends there at the latest."""


@triton.jit
def write_levels(judged, end, walk, record_ptrs, known_ptr, max_num_drafts):
    """Write down how a walk ends at each of some levels before an end, and then what is known of their drafts."""
    level, is_accepted, rejected, chosen, laws = judged
    is_level = (level <= walk[2]) & (level < end)
    place = walk[0] * (max_num_drafts + 1) + level
    write_record(record_ptrs, place, level, rejected, chosen, laws, is_level)
    # All threads have stored before one of them says so.
    tl.debug_barrier()
    tl.atomic_xchg(known_ptr + level, tl.where(is_accepted, ACCEPTED, ENDS), mask=is_level, sem="release")


@triton.jit
def await_end(known_ptr, max_num_drafts, LEVELS: tl.constexpr):
    """Return the level at which a walk ends, once that is known."""
    level = tl.arange(0, LEVELS)
    last = tl.full([], LEVELS, dtype=tl.int32)
    while last == LEVELS:
        known = tl.load(known_ptr + level, mask=level <= max_num_drafts, other=ENDS, volatile=True)
        first = tl.min(tl.where(known == ACCEPTED, LEVELS, level), axis=0)
        last = tl.min(tl.where((level == first) & (known == ENDS), level, LEVELS), axis=0)
    # What was written before that is read after it.
    tl.atomic_add(known_ptr + last, 0, sem="acquire")
    return last


@triton.jit
def draw_rest(
    part,
    walk,
    ended,
    source,
    least,
    coin,
    mass_ptr,
    count_ptr,
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
    scales = (laws[1], laws[3])
    if not PRECISE:
        scales = (scales[0].to(tl.float32), scales[1].to(tl.float32))
    rest = (target_row, draft_row, scales, is_drawn)
    first = part * blocks_per_program
    end = tl.minimum(first + blocks_per_program, num_rest_blocks)
    add_up(first, end, mass_ptr, rest, rejected, HAS_DRAFT, PRECISE, TILE)
    # All threads have stored before one of them says so.
    tl.debug_barrier()
    num_left = tl.atomic_add(count_ptr, 1, sem="acq_rel")
    if num_left == programs_per_rest - 1:
        place = tl.arange(0, PARTS)
        is_part = place < num_rest_blocks * TILE[0]
        part_mass = tl.load(mass_ptr + place, mask=is_part, other=0.0, cache_modifier=".cg")
        total = tl.sum(part_mass, axis=0)
        if (total == 0) & (rejected >= 0):
            # Rounding alone has rejected the draft, or neither row can choose it: p is what is left.
            rejected = tl.full([], -1, dtype=tl.int32)
            add_up(0, num_rest_blocks, mass_ptr, rest, rejected, HAS_DRAFT, PRECISE, TILE)
            tl.debug_barrier()
            part_mass = tl.load(mass_ptr + place, mask=is_part, other=0.0, cache_modifier=".cg")
            total = tl.sum(part_mass, axis=0)
        tl.store(output_ptr, pick(part_mass, coin * total, rest, rejected, HAS_DRAFT, PRECISE, TILE, PARTS))


@triton.jit(do_not_specialize=["num_requests", "num_drafted", "max_num_drafts"])
def _walk_chains_kernel(
    draft_ptrs,
    request_ptrs,
    target_logits_ptr,
    draft_logits_ptr,
    statistic_ptrs,
    record_ptrs,
    count_ptrs,
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
    read level after level, all requests of one level first, but where a walk is known to end before. The last programs,
    in any mode, add up some blocks of a request's last row each, and the last of them to be done draws. They wait for
    programs of lower number alone, which have started before them; no others wait.
    """
    follow_previous()
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
    known_ptr = count_ptrs[1] + request * (max_num_drafts + 1) * 2
    if reading >= num_reading:
        part = (reading - num_reading) % programs_per_rest
        coin = tl.load(request_ptrs[3] + request).to(tl.float64)
        least = None
        if MODE == JUDGES:
            ended = end_of(judge(0, walk, source, draft_ptrs[0], HAS_DRAFT, PRECISE, LEVELS, BLOCKS))
        elif MODE == WALKS:
            last = await_end(known_ptr, max_num_drafts, WIDTH)
            ended = read_record(record_ptrs, request * (max_num_drafts + 1) + last)
        else:
            last, rejected, chosen, laws = read_record(record_ptrs, request)
            ended = (last, rejected, chosen, (laws[0], 1.0 / laws[1], laws[2], 1.0 / laws[3]))
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
                count_ptrs[0] + request * 4,
                output_ptr,
                rest_shares,
                HAS_DRAFT,
                PRECISE,
                REST_TILE,
                REST_PARTS,
            )
        if (MODE != FILTERS) & (part == 0):
            write_drafts(output_ptrs, draft_ptrs[0], walk, ended[0], max_num_drafts, WIDTH)
    elif MODE == WALKS:
        if reading < 0:
            judged = judge(0, walk, source, draft_ptrs[0], HAS_DRAFT, PRECISE, LEVELS, BLOCKS)
            write_levels(judged, first_level, walk, record_ptrs, known_ptr, max_num_drafts)
        else:
            level = first_level + reading // programs_per_level // num_requests
            above = tl.arange(0, WIDTH)
            known = tl.load(known_ptr + above, mask=above < level, other=ACCEPTED, volatile=True)
            if (level <= walk[2]) & (tl.max(known, axis=0) < ENDS):
                first = reading % programs_per_level * units_per_program
                for unit in range(first, tl.minimum(first + units_per_program, units_per_level)):
                    read_unit(unit, level, walk, source, draft_ptrs, True, HAS_DRAFT, PRECISE, TILE)
                # All threads have stored before one of them says so.
                tl.debug_barrier()
                num_read = tl.atomic_add(known_ptr + max_num_drafts + 1 + level, 1, sem="acq_rel")
                if num_read == programs_per_level - 1:
                    judged = judge(level, walk, source, draft_ptrs[0], HAS_DRAFT, PRECISE, 1, BLOCKS)
                    write_levels(judged, level + 1, walk, record_ptrs, known_ptr, max_num_drafts)
