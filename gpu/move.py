"""Move KV on the GPU: every buffer of every layer in one launch."""

from collections.abc import Sequence

import torch
import triton.language as tl

from specsim.gpu.kernels.move import _move_kv_cache_by_scratch_kernel, _move_kv_cache_kernel
from specsim.gpu.launching.blocks import INTERPRETED, LARGEST_TILE, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare
from specsim.gpu.launching.pointers import StripTable, strips_of

MOST_PAIRS_IN_REGISTERS = 4096
_WORD_TYPES = {torch.int64: tl.int64, torch.int32: tl.int32, torch.int16: tl.int16, torch.uint8: tl.uint8}
_TILE_BYTES = 128
_LEAST_PROGRAM_BYTES = 1 << 11
_MOST_PROGRAM_BYTES = 1 << 17
_SCRATCH_PROGRAMS = 132
_SCRATCH_PAIRS = 512


def move_kv_cache(kv_buffers: Sequence[torch.Tensor], target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
    """Copy slots of every buffer as if all sources were read before any target is written.

    One launch for all buffers, whatever their dtypes and widths. A program owns a tile of words of one strip for all
    pairs: it reads each source once and writes each target once. Up to ``MOST_PAIRS_IN_REGISTERS`` pairs wait in
    registers, more in a scratch buffer of the program. ``KVBuffers`` carry the table of addresses; for a list it is
    built in each call, which a CUDA graph cannot capture.
    """
    axes, _ = prepare("move_kv_cache", locals())
    if not kv_buffers or not axes["pair"]:
        return
    strips = strips_of(kv_buffers)
    if not strips.num_strips:
        return
    pairs = target_slots.contiguous(), source_slots.contiguous()
    if axes["pair"] <= MOST_PAIRS_IN_REGISTERS:
        _move_in_registers(strips, *pairs)
    else:
        _move_by_scratch(strips, *pairs)


def _move_in_registers(strips: StripTable, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
    num_pairs = target_slots.shape[0]
    pairs = power_of_two(num_pairs)
    tile_bytes = min(max(_TILE_BYTES, _LEAST_PROGRAM_BYTES // pairs), _MOST_PROGRAM_BYTES // pairs)
    words = choose_block(strips.most_words, max(1, tile_bytes // strips.word.itemsize), max(1, LARGEST_TILE // pairs))
    num_tiles = ceil_div(strips.most_words, words)
    _move_kv_cache_kernel[(strips.num_strips * num_tiles,)](
        strips.table,
        target_slots,
        source_slots,
        num_pairs,
        num_tiles,
        WORD=_WORD_TYPES[strips.word],
        PAIRS=pairs,
        WORDS=words,
        IS_ALIGNED=strips.is_aligned and words > 1,
        num_warps=_num_warps(pairs * words * strips.word.itemsize),
    )


def _move_by_scratch(strips: StripTable, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
    num_pairs = target_slots.shape[0]
    most_words = _TILE_BYTES // strips.word.itemsize
    words = choose_block(strips.most_words, most_words, LARGEST_TILE // _SCRATCH_PAIRS)
    num_tiles = ceil_div(strips.most_words, words)
    num_strip_tiles = strips.num_strips * num_tiles
    num_programs = 1 if INTERPRETED else min(num_strip_tiles, _SCRATCH_PROGRAMS)
    scratch = torch.empty(num_programs * num_pairs * words, dtype=strips.word, device=target_slots.device)
    _move_kv_cache_by_scratch_kernel[(num_programs,)](
        strips.table,
        target_slots,
        source_slots,
        scratch,
        num_pairs,
        num_tiles,
        num_strip_tiles,
        WORD=_WORD_TYPES[strips.word],
        PAIRS=_SCRATCH_PAIRS,
        WORDS=words,
        IS_ALIGNED=strips.is_aligned and words > 1,
        num_warps=_num_warps(_SCRATCH_PAIRS * words * strips.word.itemsize),
    )


def _num_warps(num_bytes: int) -> int:
    """Return enough warps for 128 bytes a thread, from 1 to 32."""
    return min(max(power_of_two(num_bytes // 4096), 1), 32)
