"""Which range a place of a flat array falls into, when ranges follow one another and may be empty."""

import triton
import triton.language as tl


@triton.jit
def count_ranges(place, length, is_range, before):
    """Count the ranges that end at or before each place, and add up their lengths; ``before`` places come first."""
    end = before + tl.cumsum(length, 0)
    is_past = is_range[None, :] & (end[None, :] <= place[:, None])
    return tl.sum(is_past.to(tl.int32), 1), tl.sum(tl.where(is_past, length[None, :], 0), 1)


@triton.jit
def weigh_ranges(place, length, weight, is_range, before):
    """Add up the weights of the ranges that end at or before each place; ``before`` places come first."""
    end = before + tl.cumsum(length, 0)
    is_past = is_range[None, :] & (end[None, :] <= place[:, None])
    return tl.sum(tl.where(is_past, weight[None, :], 0), 1)
