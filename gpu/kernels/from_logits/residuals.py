"""What is left of a row once its rejected tokens are out, and the draw from it.

``rejected`` is a node that was rejected, with its later siblings, or no node; pointers to tokens and siblings; the
number of nodes; and two tiles, the token of each node and its weight where the row keeps it.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.thresholds import read_block, share_of

LEAST_NORMAL = tl.constexpr(2.0**-126)
NO_TOKEN = tl.constexpr(2**31 - 1)


@triton.jit
def without_rejected(weight, token, rejected):
    """Put weight 0 on rejected tokens."""
    child = rejected[0]
    tries = 0
    while (child >= 0) & (child < rejected[3]) & (tries < rejected[3]):
        weight = tl.where(token == tl.load(rejected[1] + child), 0.0, weight)
        child = tl.load(rejected[2] + child)
        tries += 1
    return weight


@triton.jit
def holds_rejected(first, end, rejected):
    """Return whether a rejected token lies in a range."""
    child = rejected[0]
    tries = 0
    is_held = False
    while (child >= 0) & (child < rejected[3]) & (tries < rejected[3]):
        token = tl.load(rejected[1] + child)
        is_held = is_held | ((token >= first) & (token < end))
        child = tl.load(rejected[2] + child)
        tries += 1
    return is_held


@triton.jit
def first_beyond(weight, token, before, goal):
    """Return the first token whose prefix sum exceeds a goal, and the last token of positive weight, -1 if none has."""
    prefix = before + tl.cumsum(weight, axis=0)
    is_possible = weight > 0
    beyond = tl.min(tl.where(is_possible & (prefix > goal), token, NO_TOKEN), axis=0)
    return beyond, tl.max(tl.where(is_possible, token, -1), axis=0)


@triton.jit
def residual_block(row, inverse, first, threshold, rejected, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    """Read a block of the row: the weights, in float64, of the kept tokens that were not rejected, and the tokens."""
    logit, weight = read_block(row, first, PRECISE, BLOCK)
    if PRECISE:
        is_kept = (logit >= threshold) & (share_of(weight, inverse, PRECISE) > 0)
    else:
        is_kept = (logit >= threshold) & (weight >= LEAST_NORMAL)
    token = first + tl.arange(0, BLOCK)
    weight = tl.where(is_kept, weight, 0.0).to(tl.float64)
    if holds_rejected(first, first + BLOCK, rejected):
        weight = without_rejected(weight, token, rejected)
    return weight, token


@triton.jit
def draw_from_row(
    row,
    inverse,
    threshold,
    coin,
    rejected,
    block_mass,
    is_counted,
    BLOCKS: tl.constexpr,
    PRECISE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Draw from what a row keeps: first a block of it, then a token of the block.

    ``block_mass`` is the weight of what each block keeps, where that has been counted, and otherwise all blocks are
    read. The weights of rejected tokens are taken away from it; where that is most of a block, so that little of the
    difference could be trusted, the block is read.
    """
    block_tile = tl.arange(0, BLOCKS)
    is_read = block_tile < tl.where(is_counted, 0, tl.cdiv(row[1], BLOCK))
    removed = tl.zeros([BLOCKS], dtype=tl.float64)
    child = rejected[0]
    tries = 0
    is_removed = rejected[4] < 0
    while (child >= 0) & (child < rejected[3]) & (tries < rejected[3]):
        token = tl.load(rejected[1] + child).to(tl.int32)
        is_same = rejected[4] == token
        weight = tl.max(tl.where(is_same & (is_removed == 0), rejected[5], 0.0), axis=0)
        is_removed = is_removed | is_same
        removed += tl.where(block_tile == token // BLOCK, weight.to(tl.float64), 0.0)
        child = tl.load(rejected[2] + child)
        tries += 1
    block_mass -= removed
    is_read = is_read | (block_mass < removed)
    block = tl.min(tl.where(is_read, block_tile, BLOCKS), axis=0)
    while block < BLOCKS:
        weight = residual_block(row, inverse, block * BLOCK, threshold, rejected, PRECISE, BLOCK)[0]
        block_mass = tl.where(block_tile == block, tl.sum(weight, axis=0), block_mass)
        block = tl.min(tl.where(is_read & (block_tile > block), block_tile, BLOCKS), axis=0)
    goal = coin * tl.sum(block_mass, axis=0)
    chosen, last = first_beyond(block_mass, block_tile, 0.0, goal)
    chosen = tl.maximum(tl.minimum(chosen, tl.maximum(last, 0)), 0)
    before = tl.sum(tl.where(block_tile < chosen, block_mass, 0.0), axis=0)
    weight, token = residual_block(row, inverse, chosen * BLOCK, threshold, rejected, PRECISE, BLOCK)
    return first_beyond(weight, token, before, goal)
