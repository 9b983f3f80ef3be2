"""Which logits of one row its filters keep: decided by the list of the largest, or by the whole row."""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.lists import has_lists, load_chunks, load_listed, weigh_blocks
from specsim.gpu.kernels.from_logits.narrowing import kept_of_narrowed
from specsim.gpu.kernels.from_logits.thresholds import (
    least_of_share,
    lowest_of_top_p,
    mass_from,
    order_of,
    search,
    share_from,
    share_of,
    value_of,
    weigh,
)


@triton.jit
def keep(
    listed,
    row,
    total,
    known_from,
    filters,
    IS_ROW: tl.constexpr,
    PRECISE: tl.constexpr,
    SHIFT: tl.constexpr,
    WAYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Filter a row by top-k, top-p and min-p; logits whose shares are the same in float32 stay together.

    Returns the least logit kept, the weight of those kept, and whether that is certain: the list holds every logit from
    ``known_from`` on, and is certain where the share that decides lies above that. ``total`` is the weight of the row
    where top-k keeps everything.
    """
    top_k, top_p, min_p = filters[0], filters[1], filters[2]
    inverse = 1.0 / total
    known_share = share_of(weigh(known_from, row[3], row[4], PRECISE), inverse, PRECISE).to(tl.float64)
    has_all = known_share == 0
    high = order_of(row[3], SHIFT) + 1
    threshold = tl.full([], float("-inf"), dtype=tl.float32) if IS_ROW else known_from
    decisive = total * 0.0
    mass = total
    is_enough = True
    if top_k < row[1]:
        num_known = tl.sum((listed[0] >= known_from).to(tl.int32), axis=0)
        is_enough = IS_ROW | has_all | (num_known >= top_k)
        if is_enough:
            top = high
            if IS_ROW:
                top = tl.where(num_known < top_k, tl.minimum(high, order_of(known_from, SHIFT)), high)
            low = order_of(threshold, SHIFT)
            low = search(listed, row, low, top, top_k, 0.0, top_k, IS_ROW, False, PRECISE, SHIFT, WAYS, BLOCK)
            decisive = share_from(listed, row, value_of(low, SHIFT), inverse, IS_ROW, PRECISE, BLOCK)
            threshold = least_of_share(listed, row, decisive, inverse, IS_ROW, PRECISE, BLOCK)
            mass = mass_from(listed, row, threshold, IS_ROW, PRECISE, BLOCK)
    if is_enough & (top_p < 1):
        goal = top_p * mass
        known_mass = mass_from(listed, row, known_from, False, PRECISE, BLOCK)
        is_reached = known_mass >= goal
        if IS_ROW | has_all | is_reached:
            top = high
            if IS_ROW:
                top = tl.where(is_reached, high, tl.minimum(high, order_of(known_from, SHIFT)))
            low = lowest_of_top_p(row, mass, top_p, threshold, top, SHIFT)
            low = search(listed, row, low, top, 0, goal, 0, IS_ROW, True, PRECISE, SHIFT, WAYS, BLOCK)
            by_p = share_from(listed, row, value_of(low, SHIFT), inverse, IS_ROW, PRECISE, BLOCK)
            decisive = tl.maximum(decisive, by_p)
            threshold = least_of_share(listed, row, by_p, inverse, IS_ROW, PRECISE, BLOCK)
            mass = mass_from(listed, row, threshold, IS_ROW, PRECISE, BLOCK)
    if is_enough & (min_p > 0):
        by_min = min_p * share_of(weigh(row[3], row[3], row[4], PRECISE), inverse, PRECISE).to(tl.float64)
        decisive = tl.maximum(decisive, by_min)
        by_min_p = least_of_share(listed, row, by_min, inverse, IS_ROW, PRECISE, BLOCK)
        threshold = tl.maximum(threshold, by_min_p)
        mass = mass_from(listed, row, threshold, IS_ROW, PRECISE, BLOCK)
    return threshold, mass, has_all | (is_enough & (decisive > known_share))


@triton.jit
def filter_row(
    row_ptr,
    place,
    temperature,
    filters,
    is_greedy,
    walk_ptrs,
    row_sizes,
    shares,
    CHUNKS: tl.constexpr,
    SEARCH: tl.constexpr,
    SHIFT: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Filter a row by its lists, by what narrowing has found, or by reading it again; a greedy row keeps its choice.

    ``place`` is its number among the rows of the statistics, to which ``walk_ptrs`` points after the current nodes, and
    ``row_sizes`` the number of its chunks, of its logits, and their stride. ``shares``, as in the walk of a tree, is
    read where rows are narrowed down. Returns the row; its lists, and their tokens; its weight; and what is kept: the
    least logit, the last token that may be, the weight, whether the lists hold all of it, its weight by blocks, and
    whether that has been counted.
    """
    num_chunks, vocab, column_stride = row_sizes
    BLOCK: tl.constexpr = SEARCH[3]
    RATIO: tl.constexpr = SEARCH[4]
    # NOTE: everything is read here, before the first reduction, so that the latencies overlap.
    chunk_max, chunk_bound = load_chunks(walk_ptrs[1], walk_ptrs[3], place, num_chunks, CHUNKS)
    is_listed = has_lists(is_greedy, filters[0], filters[1], filters[2], vocab)
    listed_logit, listed_token = load_listed(
        walk_ptrs[4], walk_ptrs[5], place, num_chunks, vocab, is_listed, SEARCH[0], CHUNKS
    )
    largest = tl.max(chunk_max, axis=0)
    largest = tl.where(largest > float("-inf"), largest, 0.0)
    row = (row_ptr, vocab, column_stride, largest, temperature)
    block_mass, total = weigh_blocks(
        walk_ptrs[2], walk_ptrs[1], row, filters[0], place, num_chunks, PRECISE, CHUNKS, RATIO
    )
    listed = (listed_logit, weigh(listed_logit, largest, temperature, PRECISE))
    known_from = tl.max(chunk_bound, axis=0)
    last_token = vocab - 1
    threshold = largest
    mass = total * 0.0 + 1.0
    is_certain = is_greedy
    is_narrowed = False
    if is_greedy:
        last_token = tl.min(tl.where(listed_logit == largest, listed_token, vocab - 1), axis=0)
    else:
        threshold, mass, is_certain = keep(
            listed, row, total, known_from, filters, False, PRECISE, SHIFT, SEARCH[1], BLOCK
        )
        if not is_certain:
            if SEARCH[5] > 0:
                is_narrowed = (filters[0] >= vocab) & (filters[1] < 1)
                if is_narrowed:
                    least, kept_mass, is_narrowed = kept_of_narrowed(
                        walk_ptrs,
                        place,
                        row,
                        total,
                        filters,
                        shares,
                        SEARCH[5],
                        SEARCH[6],
                        CHUNKS * RATIO,
                        SHIFT,
                    )
                    threshold = least
                    if is_narrowed:
                        block_mass = kept_mass
                        mass = tl.sum(kept_mass, axis=0)
            if not is_narrowed:
                threshold, mass, _ = keep(
                    listed, row, total, known_from, filters, True, PRECISE, SHIFT, SEARCH[2], BLOCK
                )
    is_counted = is_narrowed | ((threshold == float("-inf")) & (filters[0] >= vocab))
    return row, listed, listed_token, total, (threshold, last_token, mass, is_certain, block_mass, is_counted)
