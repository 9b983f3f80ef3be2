"""Exact 32-bit hashing on unsigned words, as in ``specsim.hashing``."""

import triton
import triton.language as tl

from specsim import hashing

GOLDEN = tl.constexpr(hashing.GOLDEN)
DRAFT_GOLDEN = tl.constexpr(hashing.DRAFT_GOLDEN)
COIN_SALT = tl.constexpr(hashing.COIN_SALT)
BEST_PROBABILITY = tl.constexpr(hashing.BEST_PROBABILITY)
PROBABILITY_STEP = tl.constexpr(2.0**-hashing.PROBABILITY_BITS)


@triton.jit
def mix(word):
    """Scramble every word; uint32 products wrap."""
    word = word ^ (word >> 16)
    word = word * 0x7FEB352D
    word = word ^ (word >> 15)
    word = word * 0x846CA68B
    return word ^ (word >> 16)


@triton.jit
def digest_tag(position, token, context, component):
    """Hash the four words of a KV entry."""
    state = mix(position + GOLDEN)
    state = mix(state + token)
    state = mix(state + context)
    return mix(state + component)


@triton.jit
def digest_entry(buffer_ptr, slot, slot_stride, word_stride, mask):
    """Digest of the KV entries at the slots."""
    entry_ptr = buffer_ptr + slot * slot_stride
    position = tl.load(entry_ptr, mask=mask, other=0).to(tl.uint32)
    token = tl.load(entry_ptr + word_stride, mask=mask, other=0).to(tl.uint32)
    context = tl.load(entry_ptr + 2 * word_stride, mask=mask, other=0).to(tl.uint32)
    component = tl.load(entry_ptr + 3 * word_stride, mask=mask, other=0).to(tl.uint32)
    return digest_tag(position, token, context, component)


@triton.jit
def digest_row(rows_ptr, row, mask, width, num_words, ROWS: tl.constexpr):
    """Digest of the first words of rows of a contiguous int64 matrix."""
    state = tl.zeros([ROWS], dtype=tl.uint32) + GOLDEN
    for word in range(num_words):
        state = mix(state + tl.load(rows_ptr + row * width + word, mask=mask, other=0).to(tl.uint32))
    return state
