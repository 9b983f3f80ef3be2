"""What is left of the last row of a chain, and the draw from it.

A ``rest`` is the target's row, that of the draft, what turns weights of either into probabilities, the rejected draft,
and whether it was drawn from the draft's row, which is subtracted then. A row is a pointer, its number of logits, its
stride, its largest logit, its temperature, and the least logit that is kept.
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
def rest_of_block(block, rest, rejected, HAS_DRAFT: tl.constexpr, PRECISE: tl.constexpr, TILE: tl.constexpr):
    """Add up what is left of each unit of a block, in float64: neighbours in float32 where weights are in float32."""
    weight = rest_of(tokens_of_block(block, TILE), rest, rejected, HAS_DRAFT, PRECISE)
    return tl.sum(weight, axis=1).to(tl.float64)


@triton.jit
def pick(
    block_mass,
    coin,
    rest,
    rejected,
    HAS_DRAFT: tl.constexpr,
    PRECISE: tl.constexpr,
    TILE: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """Draw a token: first a block by what its tokens add up to, then a unit of it, then a token of that."""
    UNITS: tl.constexpr = TILE[0]
    UNIT: tl.constexpr = TILE[1]
    goal = coin * tl.sum(block_mass, axis=0)
    place = tl.arange(0, BLOCKS)
    beyond, last = first_beyond(block_mass, place, 0.0, goal)
    block = tl.maximum(tl.minimum(beyond, last), 0)
    before = tl.sum(tl.where(place < block, block_mass, 0.0), axis=0)
    mass = rest_of_block(block, rest, rejected, HAS_DRAFT, PRECISE, TILE)
    place = tl.arange(0, UNITS)
    beyond, last = first_beyond(mass, place, before, goal)
    unit = tl.maximum(tl.minimum(beyond, last), 0)
    before += tl.sum(tl.where(place < unit, mass, 0.0), axis=0)
    token = (block * UNITS + unit) * UNIT + tl.arange(0, UNIT)
    weight = rest_of(token, rest, rejected, HAS_DRAFT, PRECISE)
    beyond, last = first_beyond(weight.to(tl.float64), token, before, goal)
    return tl.maximum(tl.minimum(beyond, last), 0)
