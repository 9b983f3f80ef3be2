"""Filters of distributions: thresholds are found by search over the bits of float32, which order values that are not
negative, so that no row is sorted.

A tile holds ROWS rows; what a row has once is a [ROWS, 1] tile. The entries of a row that may survive stand as a list
at the front of the row's own output, which they leave before the output is written.
"""

import triton
import triton.language as tl

COARSE_ROUNDS = tl.constexpr(20)
"""Halvings of the 2**32 float32 numbers after which a bound is near enough: sign, exponent and eleven bits more."""


@triton.jit
def order_of(values):
    """Return integers in the order of float32 values."""
    bits = values.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def value_of(order):
    """Return the float32 value of an integer of ``order_of``."""
    bits = tl.where(order < 0, order ^ 0x7FFFFFFF, order)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def least_of_best(values, count):
    """Return a value that at least ``count`` entries of each row of a tile reach, -inf where the row has fewer.

    The search stops early: the bound need not be the largest.
    """
    order = order_of(values)
    low = tl.min(order, 1, keep_dims=True).to(tl.int64)
    high = tl.max(order, 1, keep_dims=True).to(tl.int64) + 1
    for _ in range(COARSE_ROUNDS):
        middle = low + (high - low) // 2
        is_reached = tl.sum((order >= middle.to(tl.int32)).to(tl.int32), 1, keep_dims=True) >= count
        low = tl.where(is_reached, middle, low)
        high = tl.where(is_reached, high, middle)
    return tl.where(count <= values.shape[1], value_of(low.to(tl.int32)), float("-inf"))


@triton.jit
def append(list_ptr, length, entries, is_kept):
    """Write the kept entries of a tile after each row's list and return its length."""
    kept = is_kept.to(tl.int32)
    tl.store(list_ptr + length + tl.cumsum(kept, 1) - 1, entries, mask=is_kept)
    return length + tl.sum(kept, 1, keep_dims=True)


@triton.jit
def measure(list_ptr, length, least, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Count and add up, in float64, the entries of each list that reach a threshold in float64."""
    count = tl.zeros([ROWS, BLOCK], dtype=tl.int32)
    mass = tl.zeros([ROWS, BLOCK], dtype=tl.float64)
    for block in range(tl.cdiv(tl.max(length), BLOCK)):
        place = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        entry = tl.load(list_ptr + place, mask=place < length, other=-1.0).to(tl.float64)
        is_reached = (place < length) & (entry >= least)
        count += is_reached.to(tl.int32)
        mass += tl.where(is_reached, entry, 0.0)
    return tl.sum(count, 1, keep_dims=True), tl.sum(mass, 1, keep_dims=True)


@triton.jit
def largest_of(list_ptr, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Return the largest entry of each list, 0 if it has none."""
    largest = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for block in range(tl.cdiv(tl.max(length), BLOCK)):
        place = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        largest = tl.maximum(largest, tl.load(list_ptr + place, mask=place < length, other=0.0))
    return tl.max(largest, 1, keep_dims=True)


@triton.jit
def shares(entries, least, total):
    """Return shares of a total, rounded to float32; 0 for entries below a threshold."""
    entry = entries.to(tl.float64)
    return tl.where(entry >= least, entry / total, 0.0).to(tl.float32)


@triton.jit
def shrink(list_ptr, length, least, total, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Replace each list by the shares of its entries that reach a threshold, and return its length."""
    kept = tl.zeros_like(length)
    for block in range(tl.cdiv(tl.max(length), BLOCK)):
        place = block * BLOCK + tl.arange(0, BLOCK)[None, :]
        is_inside = place < length
        entry = tl.load(list_ptr + place, mask=is_inside, other=-1.0)
        is_kept = is_inside & (entry.to(tl.float64) >= least)
        tl.debug_barrier()
        kept = append(list_ptr, kept, shares(entry, least, total), is_kept)
    tl.debug_barrier()
    return kept


@triton.jit
def search(list_ptr, length, least, largest, goal, BY_MASS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Find the largest threshold, float64, whose entries reach a goal, a number or a sum; ``least`` if none does.

    A list holds every entry of its row from ``least`` on, and none above ``largest``, both float32. The search ends
    where one entry, or one value, is left between the threshold that reaches the goal and the one that does not.
    """
    low, high = order_of(least), order_of(largest) + 1
    num_low, num_high = length, tl.zeros_like(length)
    is_open = (high - low > 1) & (num_low - num_high > 1)
    is_open = is_open & (goal < float("inf") if BY_MASS else goal < length)
    while tl.max(is_open.to(tl.int32)) > 0:
        middle = low + (high - low) // 2
        count, mass = measure(list_ptr, length, value_of(middle).to(tl.float64), ROWS, BLOCK)
        is_reached = mass >= goal if BY_MASS else count >= goal
        low = tl.where(is_open & is_reached, middle, low)
        num_low = tl.where(is_open & is_reached, count, num_low)
        high = tl.where(is_open & (is_reached == 0), middle, high)
        num_high = tl.where(is_open & (is_reached == 0), count, num_high)
        is_open = is_open & (high - low > 1) & (num_low - num_high > 1)
    return value_of(low).to(tl.float64)


@triton.jit
def goal_of_top_p(top_p, total):
    """Return the sum that top-p asks for; out of reach where it keeps everything."""
    return tl.where(top_p < 1, top_p * total, float("inf"))


@triton.jit
def bound_of_top_p(top_p, total, count):
    """Return a value, float32, below the threshold of top-p among so many entries.

    The entries below ``(1 - p) * total / count`` add up to less than top-p may drop; the rest of the product leaves
    room for roundings.
    """
    return tl.where(top_p < 1, (1 - top_p) * total / count * 0.999, 0.0).to(tl.float32)
