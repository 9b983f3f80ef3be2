"""Drawing a token from a row of weights by one coin; prefix sums are in float64.

A ``residual`` is a row times a scale, less another row, or less one token, where something was rejected: pointer and
stride of the row, of the other one, whether something was rejected, the token that is excluded if there is no other
row, and the scale.
"""

import triton
import triton.language as tl


@triton.jit
def weights_of(residual, token, is_inside, HAS_OTHER: tl.constexpr):
    """Return the weights of a block of tokens, in float64."""
    row_ptr, row_stride, other_ptr, other_stride, is_rejected, excluded, scale = residual
    weight = tl.load(row_ptr + token.to(tl.int64) * row_stride, mask=is_inside, other=0.0).to(tl.float64) * scale
    if HAS_OTHER:
        subtracted = is_inside & is_rejected
        other = tl.load(other_ptr + token.to(tl.int64) * other_stride, mask=subtracted, other=0.0)
        weight = tl.maximum(weight - other.to(tl.float64), 0.0)
    else:
        weight = tl.where(is_rejected & (token == excluded), 0.0, weight)
    return weight


@triton.jit
def add_up(residual, marked, block_mass_ptr, vocab, blocks_per_program, HAS_OTHER: tl.constexpr, BLOCK: tl.constexpr):
    """Write the sums of the blocks of a residual that a program has, numbered along the second axis of the grid.

    ``marked`` are the tokens at which the other row is not 0, so that only their blocks of it are read; None stands for
    all of them.
    """
    row_ptr, row_stride, other_ptr, other_stride, is_rejected, excluded, scale = residual
    first = tl.program_id(1) * blocks_per_program
    for block in range(first, tl.minimum(first + blocks_per_program, tl.cdiv(vocab, BLOCK))):
        token = block * BLOCK + tl.arange(0, BLOCK)
        is_subtracted = is_rejected
        if marked is not None:
            is_subtracted = is_rejected & (tl.max((marked // BLOCK == block).to(tl.int32), 0) > 0)
        part = (row_ptr, row_stride, other_ptr, other_stride, is_subtracted, excluded, scale)
        tl.store(block_mass_ptr + block, tl.sum(weights_of(part, token, token < vocab, HAS_OTHER), 0))


@triton.jit
def pick(block_mass, residual, coin, vocab, HAS_OTHER: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    """Draw a token from a residual whose blocks have been added up.

    NOTE: tokens and blocks without weight are passed over by name, because prefix sums of a parallel scan may differ
    in their last bit where nothing is added.
    """
    lane = tl.arange(0, BLOCK)
    place = tl.arange(0, BLOCKS)
    end = tl.cumsum(block_mass, 0)
    limit = coin * tl.sum(tl.where(place == BLOCKS - 1, end, 0.0), 0)
    reached = tl.min(tl.where((block_mass > 0) & (end > limit), place, BLOCKS), 0)
    last_block = tl.max(tl.where(block_mass > 0, place, -1), 0)
    chosen = tl.maximum(tl.minimum(reached, last_block), 0)
    before = tl.sum(tl.where(place == chosen - 1, end, 0.0), 0)
    token = chosen * BLOCK + lane
    weight = weights_of(residual, token, token < vocab, HAS_OTHER)
    prefix = before + tl.cumsum(weight, 0)
    first = tl.min(tl.where((weight > 0) & (prefix > limit), token, vocab), 0)
    last = tl.max(tl.where(weight > 0, token, -1), 0)
    return tl.where(last < 0, vocab - 1, tl.minimum(first, last))
