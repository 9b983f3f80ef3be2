"""Bounds of one row's logits, found by search over the bits of float32: several bounds are tried in a round.

``listed`` is a tile of logits and one of their weights; ``row`` is a pointer to the logits of a row, their number,
their stride, the largest of them, and the temperature. With IS_ROW the row is read, block by block, and otherwise the
tile stands for it.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
MOST = tl.constexpr(2**31 - 1)


@triton.jit
def order_of(value, SHIFT: tl.constexpr):
    """Return an integer in the order of float32 numbers whose last SHIFT bits are 0."""
    bits = value.to(tl.int32, bitcast=True) >> SHIFT
    return (bits ^ ((bits >> 31) & (0x7FFFFFFF >> SHIFT))).to(tl.int64)


@triton.jit
def value_of(order, SHIFT: tl.constexpr):
    """Return the float32 number of an integer of ``order_of``."""
    order = order.to(tl.int32)
    bits = order ^ ((order >> 31) & (0x7FFFFFFF >> SHIFT))
    return (bits << SHIFT).to(tl.float32, bitcast=True)


@triton.jit
def read_logits(row_ptr, token, vocab, column_stride):
    """Read logits of one row in float32; tokens outside the vocabulary read as -inf."""
    is_token = (token >= 0) & (token < vocab)
    offset = token.to(tl.int64) * column_stride
    return tl.load(row_ptr + offset, mask=is_token, other=float("-inf")).to(tl.float32)


@triton.jit
def weigh(logit, largest, temperature, PRECISE: tl.constexpr):
    """Weights relative to the largest logit, in float64 or in float32."""
    if PRECISE:
        weight = tl.exp((logit.to(tl.float64) - largest.to(tl.float64)) / temperature.to(tl.float64))
    else:
        weight = tl.exp2((logit - largest) * ((1.0 / temperature) * LOG2_E))
    return weight


@triton.jit
def share_of(weight, inverse, PRECISE: tl.constexpr):
    """Return what decides ties: the share of a total, in float32, or the weight, which is float32 itself."""
    if PRECISE:
        weight = (weight * inverse).to(tl.float32)
    return weight


@triton.jit
def read_block(row, first, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    """Read a block of the row: its logits and their weights."""
    logit = read_logits(row[0], first + tl.arange(0, BLOCK), row[1], row[2])
    return logit, weigh(logit, row[3], row[4], PRECISE)


@triton.jit
def measure(
    listed,
    row,
    bound,
    IS_ROW: tl.constexpr,
    WEIGHED: tl.constexpr,
    PRECISE: tl.constexpr,
    WAYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """For each of several bounds, the number of logits that reach it, and their weight in float64."""
    count = tl.zeros([WAYS], dtype=tl.int32)
    mass = tl.zeros([WAYS], dtype=tl.float64)
    if IS_ROW:
        for first in range(0, row[1], BLOCK):
            logit, weight = read_block(row, first, PRECISE, BLOCK)
            is_reached = logit[:, None] >= bound[None, :]
            count += tl.sum(is_reached.to(tl.int32), axis=0)
            if WEIGHED:
                mass += tl.sum(tl.where(is_reached, weight[:, None], 0.0), axis=0).to(tl.float64)
    else:
        is_reached = listed[0][:, None] >= bound[None, :]
        count += tl.sum(is_reached.to(tl.int32), axis=0)
        if WEIGHED:
            mass += tl.sum(tl.where(is_reached, listed[1][:, None], 0.0), axis=0).to(tl.float64)
    return count, mass


@triton.jit
def search(
    listed,
    row,
    low,
    high,
    need_count,
    need_mass,
    enough,
    IS_ROW: tl.constexpr,
    WEIGHED: tl.constexpr,
    PRECISE: tl.constexpr,
    SHIFT: tl.constexpr,
    WAYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return the highest bound that enough logits, or enough weight, reach, as an integer of ``order_of``.

    ``low`` is reached and ``high`` is not. The search ends early where ``enough`` logits or fewer reach the bound, or
    where no two of them lie between the bounds that remain.
    """
    num_low = MOST
    num_high = 0
    way = tl.arange(0, WAYS)
    while (high - low > 1) & (num_low - num_high > 1) & (num_low > enough):
        span = high - low
        bound = value_of(low + span * (way + 1) // WAYS, SHIFT)
        count, mass = measure(listed, row, bound, IS_ROW, WEIGHED, PRECISE, WAYS, BLOCK)
        is_reached = (count >= need_count) & (mass >= need_mass)
        num_reached = tl.sum(is_reached.to(tl.int32), axis=0)
        num_low = tl.minimum(num_low, tl.min(tl.where(is_reached, count, MOST), axis=0))
        num_high = tl.maximum(num_high, tl.max(tl.where(is_reached, 0, count), axis=0))
        high = tl.where(num_reached < WAYS, low + span * (num_reached + 1) // WAYS, high)
        low += span * num_reached // WAYS
    return low


@triton.jit
def lowest_of_top_p(row, mass, top_p, least, high, SHIFT: tl.constexpr):
    """Return a bound below ``high`` that the share of top-p in a weight reaches, as an integer of ``order_of``.

    It is ``least`` at least; all logits below it have at most half of the weight that top-p may drop.
    """
    spare = (mass * (1 - top_p) / row[1] * 0.5).to(tl.float32)
    low = order_of(row[3] + row[4] * tl.log(spare), SHIFT) - 1
    return tl.minimum(tl.maximum(low, order_of(least, SHIFT)), high - 1)


@triton.jit
def share_from(listed, row, bound, inverse, IS_ROW: tl.constexpr, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    """Return the share of the least logit that reaches a bound."""
    if IS_ROW:
        least = row[3]
        for first in range(0, row[1], BLOCK):
            logit, _ = read_block(row, first, PRECISE, BLOCK)
            least = tl.minimum(least, tl.min(tl.where(logit >= bound, logit, row[3]), axis=0))
    else:
        least = tl.min(tl.where(listed[0] >= bound, listed[0], row[3]), axis=0)
    return share_of(weigh(least, row[3], row[4], PRECISE), inverse, PRECISE).to(tl.float64)


@triton.jit
def least_of_share(listed, row, bound, inverse, IS_ROW: tl.constexpr, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    """Return the least logit whose share reaches a bound."""
    if IS_ROW:
        least = row[3]
        for first in range(0, row[1], BLOCK):
            logit, weight = read_block(row, first, PRECISE, BLOCK)
            is_reached = share_of(weight, inverse, PRECISE).to(tl.float64) >= bound
            least = tl.minimum(least, tl.min(tl.where(is_reached, logit, row[3]), axis=0))
    else:
        is_reached = share_of(listed[1], inverse, PRECISE).to(tl.float64) >= bound
        least = tl.min(tl.where(is_reached, listed[0], row[3]), axis=0)
    return least


@triton.jit
def mass_from(listed, row, bound, IS_ROW: tl.constexpr, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    """Return the weight, in float64, of the logits that reach a bound."""
    if IS_ROW:
        mass = tl.zeros([BLOCK], dtype=tl.float32)
        if PRECISE:
            mass = mass.to(tl.float64)
        for first in range(0, row[1], BLOCK):
            logit, weight = read_block(row, first, PRECISE, BLOCK)
            mass += tl.where(logit >= bound, weight, 0.0)
    else:
        mass = tl.where(listed[0] >= bound, listed[1], 0.0)
    return tl.sum(mass.to(tl.float64), axis=0)
