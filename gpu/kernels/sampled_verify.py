"""Kernel of sampled verify: a race of the tokens of a row, on noise that it makes itself."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.filters import weigh
from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.filtering import is_filtered, settings_of
from specsim.gpu.kernels.verify import LARGEST_INT32, largest_first
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
    is_small = uniform < 0.5
    scale = tl.where(is_small & (rounded < 1.0), uniform / (1.0 - rounded), 1.0)
    arrival = -tl.log(tl.where(is_small, rounded, rest)) * scale
    return tl.where(rounded < 1.0, arrival, uniform)


@triton.jit(do_not_specialize=["num_nodes"])
def _race_kernel(
    logits_ptr,
    row_ptr,
    filter_ptrs,
    seeds_ptr,
    positions_ptr,
    block_ptrs,
    target_predict_ptr,
    num_nodes,
    row_sizes,
    QUADS: tl.constexpr,
    READS_LOGITS: tl.constexpr,
):
    """Find who arrives first of a chunk of a row: of every counter the four words are four tokens side by side.

    Rows have probabilities, or weights relative to the chunk's largest logit where no filter has to read them first.
    What is compared is minus the time, so that tokens without weight come last. A chunk that is a whole row is decided.
    """
    follow_previous()
    vocab, row_stride, column_stride = row_sizes
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    request = row // num_nodes
    seed = tl.load(seeds_ptr + request).to(tl.uint64)
    position = (tl.load(positions_ptr + row) + 1).to(tl.uint32)
    quad = chunk * QUADS + tl.arange(0, QUADS)
    nothing = tl.zeros([QUADS], dtype=tl.uint32)
    first, second, third, fourth = tl.philox(seed, quad.to(tl.uint32), nothing + TOKEN, nothing + position, nothing)
    word = tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), [QUADS, WORDS])
    token = quad[:, None] * WORDS + tl.arange(0, WORDS)[None, :]
    settings = settings_of(filter_ptrs, request, vocab)
    base = tl.zeros([], dtype=tl.float32)
    if READS_LOGITS & (is_filtered(settings, vocab) == 0):
        logit_ptr = logits_ptr + row * row_stride + token.to(tl.int64) * column_stride
        logit = tl.load(logit_ptr, mask=token < vocab, other=float("-inf")).to(tl.float32)
        largest = tl.max(logit)
        weight = weigh(logit, largest, settings[1], True)
        base = largest * settings[1]
    else:
        weight = tl.load(row_ptr + row * vocab + token, mask=token < vocab, other=0.0)
    # NOTE: a weight of 0 is not divided by; it loses whatever arrives.
    early = tl.where(weight > 0, -(arrival_of(word) / tl.where(weight > 0, weight, 1.0)), float("-inf"))
    earliest = tl.max(early)
    index = tl.min(tl.where(early == earliest, token, LARGEST_INT32))
    if block_ptrs is None:
        tl.store(target_predict_ptr + row, index.to(tl.int64))
    else:
        block = row * tl.num_programs(1) + chunk
        tl.store(block_ptrs[0] + block, earliest)
        tl.store(block_ptrs[1] + block, base)
        tl.store(block_ptrs[2] + block, index)


@triton.jit
def _finish_race_kernel(block_ptrs, target_predict_ptr, num_chunks, CHUNKS: tl.constexpr):
    """Find who arrives first among the winners of a row's chunks, all relative to the largest logit of the row."""
    follow_previous()
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.arange(0, CHUNKS)
    is_chunk = chunk < num_chunks
    block = row * num_chunks + chunk
    early = tl.load(block_ptrs[0] + block, mask=is_chunk, other=float("-inf"))
    base = tl.load(block_ptrs[1] + block, mask=is_chunk, other=float("-inf"))
    index = tl.load(block_ptrs[2] + block, mask=is_chunk, other=LARGEST_INT32)
    early *= tl.exp2(tl.max(base) - base)
    tl.store(target_predict_ptr + row, largest_first(early, index)[1].to(tl.int64))
