"""What the statistics have left of a row: the largest logit and the bound of each chunk, the lists, weights of blocks.

``row`` is as in ``thresholds``.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.from_logits.thresholds import weigh


@triton.jit
def load_chunks(chunk_max_ptr, chunk_bound_ptr, place, num_chunks, CHUNKS: tl.constexpr):
    """Read the largest logit of each chunk, and the bound from which on its list holds every logit."""
    chunk = tl.arange(0, CHUNKS)
    number = place * num_chunks + chunk
    chunk_max = tl.load(chunk_max_ptr + number, mask=chunk < num_chunks, other=float("-inf"))
    return chunk_max, tl.load(chunk_bound_ptr + number, mask=chunk < num_chunks, other=float("-inf"))


@triton.jit
def has_lists(is_greedy, top_k, top_p, min_p, vocab):
    """Return whether lists of a row are made: it is greedy, which chooses from them, or filters may cut it."""
    return is_greedy | (top_k < vocab) | (top_p < 1) | (min_p > 0)


@triton.jit
def load_listed(logits_ptr, tokens_ptr, place, num_chunks, vocab, is_made, SLOTS: tl.constexpr, CHUNKS: tl.constexpr):
    """Read the lists of all chunks of a row, if it has any: its largest logits, and their tokens in order."""
    slot = tl.arange(0, CHUNKS * SLOTS)
    number = place * num_chunks * SLOTS + slot
    is_listed = slot < tl.where(is_made, num_chunks * SLOTS, 0)
    logit = tl.load(logits_ptr + number, mask=is_listed, other=float("-inf"))
    return logit, tl.load(tokens_ptr + number, mask=is_listed, other=vocab)


@triton.jit
def weigh_blocks(
    block_mass_ptr,
    chunk_max_ptr,
    row,
    top_k,
    place,
    num_chunks,
    PRECISE: tl.constexpr,
    CHUNKS: tl.constexpr,
    RATIO: tl.constexpr,
):
    """Return the weight of each block relative to the row's largest logit, and their sum; 1 where top-k decides.

    A chunk has RATIO blocks.
    """
    block = tl.arange(0, CHUNKS * RATIO)
    block_mass = tl.zeros([CHUNKS * RATIO], dtype=tl.float64)
    total = tl.zeros([], dtype=tl.float64) + 1.0
    if PRECISE | (top_k >= row[1]):
        is_block = block < num_chunks * RATIO
        block_mass = tl.load(block_mass_ptr + place * num_chunks * RATIO + block, mask=is_block, other=0.0)
        chunk_max = tl.load(chunk_max_ptr + place * num_chunks + block // RATIO, mask=is_block, other=float("-inf"))
        block_mass *= weigh(chunk_max, row[3], row[4], PRECISE).to(tl.float64)
        total = tl.sum(block_mass, axis=0)
    return block_mass, total
