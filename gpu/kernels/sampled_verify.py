"""Kernel of sampled verify: a race of the tokens of a row, on noise that it makes itself."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.verify import largest_first
from specsim.host import noise

WORDS = tl.constexpr(noise.WORDS)
STEP = tl.constexpr(noise.STEP)
TOKEN = tl.constexpr(noise.PURPOSES["token"])


@triton.jit
def arrival_of(word):
    """Return ``-log(1 - u)`` in float32 of the number u that a word of noise stands for, to a few units of it.

    NOTE: ``1 - u`` rounds where u is small, so that the logarithm of what was rounded is scaled to u itself; where u is
    large the word's complement has all digits of ``1 - u``.
    """
    uniform = (word.to(tl.float32) + 0.5) * STEP
    rest = ((word ^ 0xFFFFFFFF).to(tl.float32) + 0.5) * STEP
    rounded = 1.0 - uniform
    scale = tl.where(rounded < 1.0, uniform / (1.0 - rounded), 1.0)
    small = tl.where(rounded < 1.0, -tl.log(rounded) * scale, uniform)
    return tl.where(uniform < 0.5, small, -tl.log(rest))


@triton.jit(do_not_specialize=["num_nodes"])
def _race_kernel(
    row_ptr,
    seeds_ptr,
    positions_ptr,
    block_values_ptr,
    block_index_ptr,
    target_predict_ptr,
    num_nodes,
    vocab,
    QUADS: tl.constexpr,
    IS_LAST: tl.constexpr,
):
    """Find who arrives first of a chunk of a row: of every counter the four words are four tokens side by side.

    What is compared is minus the time, so that tokens without weight come last.
    """
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    seed = tl.load(seeds_ptr + row // num_nodes).to(tl.uint64)
    position = (tl.load(positions_ptr + row) + 1).to(tl.uint32)
    quad = chunk * QUADS + tl.arange(0, QUADS)
    nothing = tl.zeros([QUADS], dtype=tl.uint32)
    words = tl.philox(seed, quad.to(tl.uint32), nothing + TOKEN, nothing + position, nothing)
    best = tl.full([QUADS], float("-inf"), dtype=tl.float32)
    best_index = quad * WORDS
    for place in tl.static_range(WORDS):
        token = quad * WORDS + place
        weight = tl.load(row_ptr + row * vocab + token, mask=token < vocab, other=0.0)
        # NOTE: a weight of 0 is not divided by; it loses whatever arrives.
        time = arrival_of(words[place]) / tl.where(weight > 0, weight, 1.0)
        early = tl.where(weight > 0, -time, float("-inf"))
        is_better = early > best
        best = tl.where(is_better, early, best)
        best_index = tl.where(is_better, token, best_index)
    value, index = largest_first(best, best_index)
    if IS_LAST:
        tl.store(target_predict_ptr + row, index.to(tl.int64))
    else:
        tl.store(block_values_ptr + row * tl.num_programs(1) + chunk, value)
        tl.store(block_index_ptr + row * tl.num_programs(1) + chunk, index)
