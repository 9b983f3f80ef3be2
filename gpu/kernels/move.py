"""Kernels of ``move_kv_cache``.

A program owns a tile of words of one strip for all pairs, so that no other program touches its bytes. It reads every
source before it writes any target; the barrier orders the reads of one warp before the writes of another.
"""

import triton
import triton.language as tl


@triton.jit
def _locate_tile(strips_ptr, tile, num_tiles, WORD: tl.constexpr, WORDS: tl.constexpr, IS_ALIGNED: tl.constexpr):
    """A row of the table is (address, words from slot to slot, words of a slot)."""
    strip_ptr = strips_ptr + tile // num_tiles * 3
    base_ptr = tl.load(strip_ptr).to(tl.pointer_type(WORD))
    stride = tl.load(strip_ptr + 1)
    num_words = tl.load(strip_ptr + 2)
    if IS_ALIGNED:
        num_words = tl.multiple_of(num_words, 2)
    word = tile % num_tiles * WORDS + tl.arange(0, WORDS)
    return base_ptr, stride, word, word < num_words


@triton.jit
def _entry_ptr(base_ptr, slot, stride, word, IS_ALIGNED: tl.constexpr):
    entry_ptr = base_ptr + (slot * stride)[:, None] + word[None, :]
    if IS_ALIGNED:
        entry_ptr = tl.max_contiguous(tl.multiple_of(entry_ptr, (1, 16)), (1, 2))
    return entry_ptr


@triton.jit
def _move_kv_cache_kernel(
    strips_ptr,
    target_slots_ptr,
    source_slots_ptr,
    num_pairs,
    num_tiles,
    WORD: tl.constexpr,
    PAIRS: tl.constexpr,
    WORDS: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
):
    base_ptr, stride, word, is_word = _locate_tile(strips_ptr, tl.program_id(0), num_tiles, WORD, WORDS, IS_ALIGNED)
    pair = tl.arange(0, PAIRS)
    is_pair = pair < num_pairs
    source = tl.load(source_slots_ptr + pair, mask=is_pair, other=0)
    target = tl.load(target_slots_ptr + pair, mask=is_pair, other=0)
    mask = is_pair[:, None] & is_word[None, :]
    entry = tl.load(_entry_ptr(base_ptr, source, stride, word, IS_ALIGNED), mask=mask)
    tl.debug_barrier()
    tl.store(_entry_ptr(base_ptr, target, stride, word, IS_ALIGNED), entry, mask=mask)


@triton.jit
def _move_kv_cache_by_scratch_kernel(
    strips_ptr,
    target_slots_ptr,
    source_slots_ptr,
    scratch_ptr,
    num_pairs,
    num_tiles,
    num_strip_tiles,
    WORD: tl.constexpr,
    PAIRS: tl.constexpr,
    WORDS: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
):
    own_ptr = scratch_ptr + tl.program_id(0).to(tl.int64) * num_pairs * WORDS
    for tile in range(tl.program_id(0), num_strip_tiles, tl.num_programs(0)):
        base_ptr, stride, word, is_word = _locate_tile(strips_ptr, tile, num_tiles, WORD, WORDS, IS_ALIGNED)
        column = tl.arange(0, WORDS)
        for start in range(0, num_pairs, PAIRS):
            pair = start + tl.arange(0, PAIRS).to(tl.int64)
            mask = (pair < num_pairs)[:, None] & is_word[None, :]
            source = tl.load(source_slots_ptr + pair, mask=pair < num_pairs, other=0)
            entry = tl.load(_entry_ptr(base_ptr, source, stride, word, IS_ALIGNED), mask=mask)
            tl.store(_entry_ptr(own_ptr, pair, WORDS, column, IS_ALIGNED), entry, mask=mask)
        tl.debug_barrier()
        for start in range(0, num_pairs, PAIRS):
            pair = start + tl.arange(0, PAIRS).to(tl.int64)
            mask = (pair < num_pairs)[:, None] & is_word[None, :]
            target = tl.load(target_slots_ptr + pair, mask=pair < num_pairs, other=0)
            entry = tl.load(_entry_ptr(own_ptr, pair, WORDS, column, IS_ALIGNED), mask=mask)
            tl.store(_entry_ptr(base_ptr, target, stride, word, IS_ALIGNED), entry, mask=mask)
        tl.debug_barrier()
