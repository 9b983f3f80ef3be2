"""Kernels of ``move_kv_cache`` and ``move_indexer_cache``.

A program owns a tile of words of one strip for all pairs, so that no other program touches its bytes. It reads every
source before it writes any target; the barrier orders the reads of one warp before the writes of another.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _locate_tile(strips_ptr, tile, num_tiles, WORD: tl.constexpr, WORDS: tl.constexpr, IS_ALIGNED: tl.constexpr):
    """Read a row of the table: address, words from page to page, words from slot to slot of a page, words of a slot."""
    strip_ptr = strips_ptr + tile // num_tiles * 4
    base_ptr = tl.load(strip_ptr).to(tl.pointer_type(WORD))
    page_stride = tl.load(strip_ptr + 1)
    slot_stride = tl.load(strip_ptr + 2)
    num_words = tl.load(strip_ptr + 3)
    if IS_ALIGNED:
        num_words = tl.multiple_of(num_words, 2)
    word = tile % num_tiles * WORDS + tl.arange(0, WORDS)
    return base_ptr, page_stride, slot_stride, word, word < num_words


@triton.jit
def _offset_of(slot, page_stride, slot_stride, PAGE: tl.constexpr):
    return slot * page_stride if PAGE == 1 else slot // PAGE * page_stride + slot % PAGE * slot_stride


@triton.jit
def _load_pairs(target_slots_ptr, source_slots_ptr, pair, num_pairs, num_slots):
    """Slots of pairs, and which of them move: none does from or to a slot outside of the buffers."""
    is_pair = pair < num_pairs
    target = tl.load(target_slots_ptr + pair, mask=is_pair, other=0)
    source = tl.load(source_slots_ptr + pair, mask=is_pair, other=0)
    is_inside = (target >= 0) & (target < num_slots) & (source >= 0) & (source < num_slots)
    return target, source, is_pair & is_inside


@triton.jit
def _entry_ptr(base_ptr, offset, word, IS_ALIGNED: tl.constexpr):
    entry_ptr = base_ptr + offset[:, None] + word[None, :]
    if IS_ALIGNED:
        entry_ptr = tl.max_contiguous(tl.multiple_of(entry_ptr, (1, 16)), (1, 2))
    return entry_ptr


@triton.jit
def _move_kv_cache_kernel(
    strips_ptr,
    target_slots_ptr,
    source_slots_ptr,
    num_pairs,
    num_slots,
    num_tiles,
    WORD: tl.constexpr,
    PAGE: tl.constexpr,
    PAIRS: tl.constexpr,
    WORDS: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
):
    follow_previous()
    base_ptr, page_stride, slot_stride, word, is_word = _locate_tile(
        strips_ptr, tl.program_id(0), num_tiles, WORD, WORDS, IS_ALIGNED
    )
    target, source, is_moved = _load_pairs(
        target_slots_ptr, source_slots_ptr, tl.arange(0, PAIRS), num_pairs, num_slots
    )
    mask = is_moved[:, None] & is_word[None, :]
    from_offset = _offset_of(source, page_stride, slot_stride, PAGE)
    to_offset = _offset_of(target, page_stride, slot_stride, PAGE)
    entry = tl.load(_entry_ptr(base_ptr, from_offset, word, IS_ALIGNED), mask=mask)
    tl.debug_barrier()
    tl.store(_entry_ptr(base_ptr, to_offset, word, IS_ALIGNED), entry, mask=mask)


@triton.jit
def _move_kv_cache_by_scratch_kernel(
    strips_ptr,
    target_slots_ptr,
    source_slots_ptr,
    scratch_ptr,
    num_pairs,
    num_slots,
    num_tiles,
    num_strip_tiles,
    WORD: tl.constexpr,
    PAGE: tl.constexpr,
    PAIRS: tl.constexpr,
    WORDS: tl.constexpr,
    IS_ALIGNED: tl.constexpr,
):
    follow_previous()
    own_ptr = scratch_ptr + tl.program_id(0).to(tl.int64) * num_pairs * WORDS
    for tile in range(tl.program_id(0), num_strip_tiles, tl.num_programs(0)):
        base_ptr, page_stride, slot_stride, word, is_word = _locate_tile(
            strips_ptr, tile, num_tiles, WORD, WORDS, IS_ALIGNED
        )
        column = tl.arange(0, WORDS)
        for start in range(0, num_pairs, PAIRS):
            pair = start + tl.arange(0, PAIRS).to(tl.int64)
            _, source, is_moved = _load_pairs(target_slots_ptr, source_slots_ptr, pair, num_pairs, num_slots)
            mask = is_moved[:, None] & is_word[None, :]
            offset = _offset_of(source, page_stride, slot_stride, PAGE)
            entry = tl.load(_entry_ptr(base_ptr, offset, word, IS_ALIGNED), mask=mask)
            tl.store(_entry_ptr(own_ptr, pair * WORDS, column, IS_ALIGNED), entry, mask=mask)
        tl.debug_barrier()
        for start in range(0, num_pairs, PAIRS):
            pair = start + tl.arange(0, PAIRS).to(tl.int64)
            target, _, is_moved = _load_pairs(target_slots_ptr, source_slots_ptr, pair, num_pairs, num_slots)
            mask = is_moved[:, None] & is_word[None, :]
            offset = _offset_of(target, page_stride, slot_stride, PAGE)
            entry = tl.load(_entry_ptr(own_ptr, pair * WORDS, column, IS_ALIGNED), mask=mask)
            tl.store(_entry_ptr(base_ptr, offset, word, IS_ALIGNED), entry, mask=mask)
        tl.debug_barrier()
