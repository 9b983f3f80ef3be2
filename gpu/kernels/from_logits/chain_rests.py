"""What is left of the last row of a chain, and the draw from it.

A ``rest`` is the target's row, that of the draft, what turns weights of either into probabilities, the rejected draft,
and whether it was drawn from the draft's row, which is subtracted then. A row is a pointer, its number of logits, its
stride, its largest logit, its temperature, and the least logit that is kept, or None. A TILE is how many parts a block
has, how many units a part, and how many neighbouring tokens a unit.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.chain_rows import tokens_of_block
from specsim.gpu.kernels.from_logits.residuals import first_beyond
from specsim.gpu.kernels.from_logits.thresholds import read_logits, weigh


@triton.jit
def rest_of(token, rest, rejected, HAS_DRAFT: tl.constexpr, PRECISE: tl.constexpr):
    """Read what some tokens weigh in what is drawn from: max(p - q, 0), or p without a draft that is certain."""
    target_row, draft_row, scales, is_drawn = rest
    logit = read_logits(target_row[0], token, target_row[1], target_row[2])
    weight = weigh(logit, target_row[3], target_row[4], PRECISE) * scales[0]
    if target_row[5] is not None:
        weight = tl.where(logit >= target_row[5], weight, 0.0)
    is_rejected = token == rejected
    if HAS_DRAFT:
        is_subtracted = is_drawn & (rejected >= 0)
        if is_subtracted:
            other = read_logits(draft_row[0], token, draft_row[1], draft_row[2])
            weight = tl.maximum(weight - weigh(other, draft_row[3], draft_row[4], PRECISE) * scales[1], 0.0)
            # A draft that its own row cannot choose was not drawn from it: nothing is subtracted there.
            is_rejected = is_rejected & (other > float("-inf"))
    return tl.where(is_rejected, 0.0, weight)


@triton.jit
def add_up(first, end, mass_ptr, rest, rejected, HAS_DRAFT: tl.constexpr, PRECISE: tl.constexpr, TILE: tl.constexpr):
    """Add up what is left of each part of some blocks, in float64: neighbours in float32 where weights are in float32.

    A part is what a warp loads at once, so that one thread of it ends up with its sum.
    """
    PARTS: tl.constexpr = TILE[0]
    UNITS: tl.constexpr = TILE[1]
    BLOCK: tl.constexpr = (TILE[0] * TILE[1], TILE[2])
    for block in range(first, end):
        weight = rest_of(tokens_of_block(block, BLOCK), rest, rejected, HAS_DRAFT, PRECISE)
        mass = tl.reshape(tl.sum(weight, axis=1).to(tl.float64), (PARTS, UNITS))
        tl.store(mass_ptr + block * PARTS + tl.arange(0, PARTS), tl.sum(mass, axis=1))


@triton.jit
def pick(
    part_mass,
    goal,
    rest,
    rejected,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    TILE: tl.constexpr,
    PARTS: tl.constexpr,
):
    """Return the token at which what is left exceeds a goal: first find its part, then the token."""
    SIZE: tl.constexpr = TILE[1] * TILE[2]
    place = tl.arange(0, PARTS)
    # NOTE: all before the coin's part is less than all, by much more than sums of float64 are rounded.
    prefix = tl.cumsum(part_mass, axis=0)
    part = tl.min(tl.where((part_mass > 0) & (prefix > goal), place, PARTS - 1), axis=0)
    before = tl.sum(tl.where(place < part, part_mass, 0.0), axis=0)
    token = part * SIZE + tl.arange(0, SIZE)
    weight = rest_of(token, rest, rejected, HAS_DRAFT, PRECISE)
    beyond, last = first_beyond(weight.to(tl.float64), token, before, goal)
    return tl.maximum(tl.minimum(beyond, last), 0)
