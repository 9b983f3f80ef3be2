"""Which logits of one row its filters keep: decided by the list of the largest, or by the whole row."""

import triton
import triton.language as tl

from specsim.gpu.kernels.thresholds import (
    least_above,
    least_of_share,
    measure,
    order_of,
    search,
    share_of,
    value_of,
    weigh,
)


@triton.jit
def weight_from(listed, row, bound, IS_ROW: tl.constexpr, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    """Return the number of logits that reach a bound, and their weight."""
    bounds = tl.zeros([1], dtype=tl.float32) + bound
    count, mass = measure(listed, row, bounds, IS_ROW, True, PRECISE, 1, BLOCK)
    return tl.sum(count, axis=0), tl.sum(mass, axis=0)


@triton.jit
def threshold_of(
    listed,
    row,
    total,
    low,
    need_count,
    need_mass,
    IS_ROW: tl.constexpr,
    BY_MASS: tl.constexpr,
    PRECISE: tl.constexpr,
    SHIFT: tl.constexpr,
    WAYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return the least logit that a filter keeps, and the share of the row that decided.

    Logits whose shares are the same in float32 stay together.
    """
    high = order_of(row[3], SHIFT) + 1
    low = search(
        listed, row, low, high, need_count, need_mass, need_count, IS_ROW, BY_MASS, PRECISE, SHIFT, WAYS, BLOCK
    )
    last = least_above(listed, row, value_of(low, SHIFT), IS_ROW, PRECISE, BLOCK)
    share = share_of(weigh(last, row[3], row[4], PRECISE), total).to(tl.float64)
    return least_of_share(listed, row, share, total, IS_ROW, PRECISE, BLOCK), share


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
    """Return the least logit that top-k, top-p and min-p keep, the weight of those kept, and whether that is certain.

    A list that holds every logit from ``known_from`` on is certain where the share that decides lies above that.
    """
    top_k, top_p, min_p = filters[0], filters[1], filters[2]
    known_share = share_of(weigh(known_from, row[3], row[4], PRECISE), total).to(tl.float64)
    has_all = known_share == 0
    is_known = has_all
    threshold = known_from
    decisive = total * 0.0
    mass = total
    known_count, known_mass = row[1], total
    if not IS_ROW:
        known_count, known_mass = weight_from(listed, row, known_from, False, PRECISE, BLOCK)
    low = order_of(known_from, SHIFT)
    if top_k < row[1]:
        is_known = has_all | (known_count >= top_k)
        if is_known:
            threshold, decisive = threshold_of(
                listed, row, total, low, top_k, 0.0, IS_ROW, False, PRECISE, SHIFT, WAYS, BLOCK
            )
            _, mass = weight_from(listed, row, threshold, IS_ROW, PRECISE, BLOCK)
            known_mass = mass
    else:
        is_known = True
    if is_known & (top_p < 1):
        if has_all | (known_mass >= top_p * mass):
            # NOTE: all logits below this one have at most half of the weight that top-p may drop.
            spare = (mass * (1 - top_p) / row[1] * 0.5).to(tl.float32)
            low = order_of(tl.maximum(row[3] + row[4] * tl.log(spare), threshold), SHIFT) - 1
            low = tl.maximum(low, order_of(threshold, SHIFT))
            threshold, by_p = threshold_of(
                listed, row, total, low, 0, top_p * mass, IS_ROW, True, PRECISE, SHIFT, WAYS, BLOCK
            )
            decisive = tl.maximum(decisive, by_p)
    if is_known & (min_p > 0):
        by_min = min_p * share_of(total * 0.0 + 1.0, total).to(tl.float64)
        threshold = tl.maximum(threshold, least_of_share(listed, row, by_min, total, IS_ROW, PRECISE, BLOCK))
        decisive = tl.maximum(decisive, by_min)
    if not IS_ROW:
        is_known = has_all | (is_known & (decisive > known_share))
    kept = total
    if is_known & (threshold > float("-inf")):
        _, kept = weight_from(listed, row, threshold, IS_ROW, PRECISE, BLOCK)
    return threshold, kept, is_known
