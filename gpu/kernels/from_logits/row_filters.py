"""Which logits of one row its filters keep: decided by the list of the largest, or by the whole row."""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.thresholds import (
    least_of_share,
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
            # NOTE: all logits below this one have at most half of the weight that top-p may drop.
            spare = (mass * (1 - top_p) / row[1] * 0.5).to(tl.float32)
            low = order_of(row[3] + row[4] * tl.log(spare), SHIFT) - 1
            low = tl.minimum(tl.maximum(low, order_of(threshold, SHIFT)), top - 1)
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
