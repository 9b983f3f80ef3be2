"""Thresholds of filters, found by halving the integers in the order of float32 numbers, so that no row is sorted.

``entries`` of rows are a tile [ROWS, BLOCK] of pointers to the first of them, the distance to the next ones, for each
pointer how many it has, the largest of these numbers, and the largest entry with a scale where entries are logits. What
a row has once is [ROWS, 1]. A threshold is an integer of ``order_of``, its last SHIFT bits left out.
"""

import triton
import triton.language as tl


@triton.jit
def order_of(values, SHIFT: tl.constexpr = 0):
    """Return integers in the order of float32 values."""
    bits = values.to(tl.int32, bitcast=True)
    return (tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits) >> SHIFT).to(tl.int64)


@triton.jit
def value_of(order, SHIFT: tl.constexpr = 0):
    """Return the float32 value of an integer of ``order_of``."""
    bits = order.to(tl.int32) << SHIFT
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)


@triton.jit
def weigh(entries, peak, scale, IS_LOGITS: tl.constexpr):
    """Return what entries weigh: powers of 2 of scaled differences to a peak, where a peak of -inf stands for 0."""
    if IS_LOGITS:
        entries = tl.exp2((entries - tl.where(peak == float("-inf"), 0.0, peak)) * scale)
    return entries


@triton.jit
def bound_of_best(values, wanted, SHIFT: tl.constexpr):
    """Return a value that at least ``wanted`` of some values reach, and few more: the search stops an eighth above."""
    order = order_of(values, SHIFT)
    low, high = tl.min(order), tl.max(order) + 1
    number = order.shape[0]
    while (high - low > 1) & (number > wanted + wanted // 8):
        middle = low + (high - low) // 2
        reached = tl.sum((order >= middle).to(tl.int32))
        low = tl.where(reached >= wanted, middle, low)
        high = tl.where(reached >= wanted, high, middle)
        number = tl.where(reached >= wanted, reached, number)
    return value_of(low, SHIFT)


@triton.jit
def least_of_share(min_p, largest, scale, SHIFT: tl.constexpr, IS_LOGITS: tl.constexpr):
    """Return a threshold, as a value, of what weighs a share of the largest entry; -inf for a share of 0."""
    if IS_LOGITS:
        order = order_of(largest + tl.log2(tl.where(min_p > 0, min_p, 1.0)) / scale)
        # The bits that entries have not are 1 below 0.
        least = value_of(tl.where(order < 0, order, order + (1 << SHIFT) - 1) >> SHIFT, SHIFT)
    else:
        exact = min_p.to(tl.float64) * largest.to(tl.float64)
        least = exact.to(tl.float32)
        least = tl.where(least.to(tl.float64) < exact, value_of(order_of(least) + 1), least)
    return tl.where(min_p > 0, least, float("-inf"))


@triton.jit
def read(entries, block):
    """Load the entries of a block, and return which there are."""
    is_inside = block < entries[2]
    return tl.load(entries[0] + block * entries[1], mask=is_inside, other=0.0), is_inside


@triton.jit
def measure(entries, threshold, IS_LOGITS: tl.constexpr):
    """Count the entries of each row that reach a threshold, a float32 value, and add their weights up in float64."""
    number = tl.zeros(entries[2].shape, dtype=tl.int32)
    mass = tl.zeros(entries[2].shape, dtype=tl.float64)
    for block in range(entries[3]):
        entry, is_inside = read(entries, block)
        is_reached = is_inside & (entry >= threshold)
        weight = weigh(entry, entries[4], entries[5], IS_LOGITS)
        number += is_reached.to(tl.int32)
        mass += tl.where(is_reached, weight, 0.0).to(tl.float64)
    return tl.sum(number, 1, keep_dims=True), tl.sum(mass, 1, keep_dims=True)


@triton.jit
def largest_of(entries):
    """Return the largest entry of each row, 0 if it has none."""
    largest = tl.zeros(entries[2].shape, dtype=tl.float32)
    for block in range(entries[3]):
        largest = tl.maximum(largest, read(entries, block)[0])
    return tl.max(largest, 1, keep_dims=True)


@triton.jit
def gather(entries, list_ptr, low, high, is_open):
    """Write the entries of each row from one value up to another into its list, and return how many they are."""
    length = tl.zeros(low.shape, dtype=tl.int32)
    for block in range(entries[3]):
        entry, is_inside = read(entries, block)
        is_between = is_inside & is_open & (entry >= low) & (entry < high)
        between = is_between.to(tl.int32)
        tl.store(list_ptr + length + tl.cumsum(between, 1) - 1, entry, mask=is_between)
        length += tl.sum(between, 1, keep_dims=True)
    return length


@triton.jit
def halve(
    entries, bounds, others, goal, is_sought, few, BY_MASS: tl.constexpr, SHIFT: tl.constexpr, IS_LOGITS: tl.constexpr
):
    """Narrow where the largest threshold lies that reaches a goal, until no more than ``few`` entries are in between.

    ``bounds`` are a threshold that reaches it and one that does not, and the numbers and weights that reach these;
    ``others`` the number and the weight of entries that are not among these, but reach any threshold in between.
    """
    low, high, num_low, num_high, mass_low, mass_high = bounds
    is_open = is_sought & (high - low > 1) & (num_low - num_high > few)
    while tl.max(is_open.to(tl.int32)) > 0:
        middle = low + (high - low) // 2
        number, mass = measure(entries, value_of(middle, SHIFT), IS_LOGITS)
        number += others[0]
        mass += others[1]
        is_reached = mass >= goal if BY_MASS else number >= goal
        is_lower, is_upper = is_open & is_reached, is_open & (is_reached == 0)
        low, high = tl.where(is_lower, middle, low), tl.where(is_upper, middle, high)
        num_low, num_high = tl.where(is_lower, number, num_low), tl.where(is_upper, number, num_high)
        mass_low, mass_high = tl.where(is_lower, mass, mass_low), tl.where(is_upper, mass, mass_high)
        is_open = is_sought & (high - low > 1) & (num_low - num_high > few)
    return low, high, num_low, num_high, mass_low, mass_high


@triton.jit
def search(
    entries,
    list_ptr,
    bounds,
    goal,
    is_sought,
    BY_MASS: tl.constexpr,
    SHIFT: tl.constexpr,
    IS_LOGITS: tl.constexpr,
    FEW: tl.constexpr,
):
    """Return the largest threshold whose entries reach a goal, a number or a weight, and both that reach it.

    ``bounds`` are a threshold that reaches it, or is the least of all, the number and the weight that reach it, and a
    threshold that nothing reaches. ``list_ptr`` has room for FEW entries of each row, which the last rounds look at.
    """
    low, number, mass, high = bounds
    state = (low, high, number, number * 0, mass, mass * 0)
    state = halve(entries, state, (0, 0.0), goal, is_sought, FEW, BY_MASS, SHIFT, IS_LOGITS)
    low, high, number, num_high, mass, mass_high = state
    is_open = is_sought & (high - low > 1) & (number - num_high > 1)
    if tl.max(is_open.to(tl.int32)) > 0:
        # The list is that of an earlier search until all threads are here.
        tl.debug_barrier()
        length = gather(entries, list_ptr, value_of(low, SHIFT), value_of(high, SHIFT), is_open)
        tl.debug_barrier()
        peak = (entries[4], entries[5])
        found = _choose(list_ptr, length, peak, (num_high, mass_high), goal, BY_MASS, SHIFT, IS_LOGITS, FEW)
        is_found = is_open & found[3]
        low, number = tl.where(is_found, found[0], low), tl.where(is_found, found[1], number)
        mass = tl.where(is_found, found[2], mass)
    return low, number, mass


@triton.jit
def _choose(
    list_ptr,
    length,
    peak,
    others,
    goal,
    BY_MASS: tl.constexpr,
    SHIFT: tl.constexpr,
    IS_LOGITS: tl.constexpr,
    FEW: tl.constexpr,
):
    """Return the largest of a few entries of each row whose mass or number reaches a goal, both, and whether one does.

    All pairs of entries are compared at once, and what ``others`` count and weigh is added.
    """
    lane = tl.arange(0, FEW)
    entry = tl.load(list_ptr + lane[None, :], mask=lane[None, :] < length, other=0.0)
    weight = weigh(entry, peak[0], peak[1], IS_LOGITS).to(tl.float64)
    is_reached = (entry[:, None, :] >= entry[:, :, None]) & (lane[None, :] < length)[:, None, :]
    number = tl.sum(is_reached.to(tl.int32), 2) + others[0]
    mass = tl.sum(tl.where(is_reached, weight[:, None, :], 0.0), 2) + others[1]
    is_enough = (mass >= goal if BY_MASS else number >= goal) & (lane[None, :] < length)
    order = tl.where(is_enough, order_of(entry, SHIFT), -(1 << 40))
    best = tl.max(order, 1, keep_dims=True)
    number = tl.max(tl.where(order == best, number, 0), 1, keep_dims=True)
    mass = tl.max(tl.where(order == best, mass, 0.0), 1, keep_dims=True)
    return best, number, mass, best > -(1 << 40)


@triton.jit
def write_shares(entries, out_ptr, step, threshold, mass):
    """Write the shares of a weight, rounded to float32, of the entries that reach a threshold, and 0 for the others."""
    mass = tl.where(mass > 0, mass, 1.0)
    for block in range(entries[3]):
        entry, is_inside = read(entries, block)
        share = tl.where(entry >= threshold, entry.to(tl.float64) / mass, 0.0).to(tl.float32)
        tl.store(out_ptr + block * step, share, mask=is_inside)
    tl.debug_barrier()
