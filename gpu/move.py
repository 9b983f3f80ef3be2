"""Move slots on the GPU: every buffer of every layer in one launch."""

import torch
import triton.language as tl

from specsim.gpu.kernels import move as kernels
from specsim.gpu.launching.blocks import LARGEST_TILE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan
from specsim.gpu.launching.pointers import strips_of
from specsim.gpu.launching.strips import StripTable

MOST_PAIRS_IN_REGISTERS = 4096
"""Pairs of slots that wait in the registers of one program: 32 warps of four pairs a thread, 128 bytes of each."""

TILE_BYTES = 128
"""Bytes of a strip that a program moves of each pair: one line of the cache."""

LEAST_PROGRAM_BYTES = 1 << 11
"""Bytes of a program that has few pairs: a strip is not cut into more programs than pay for their start."""

MOST_PROGRAM_BYTES = 1 << 17
"""Bytes that the registers of one program hold beside addresses: half of the 256 KiB of a multiprocessor."""

WARP_BYTES = 4096
"""Bytes that wait in the registers of a warp: 128 a thread."""

MOST_WARPS = 32
"""Warps of a program, of which a GPU takes no more."""

SCRATCH_PROGRAMS = 132
"""Programs that move by way of scratch memory, each with its own part of it: one a multiprocessor of an H200."""

SCRATCH_PAIRS = 512
"""Pairs of a step of such a program: 64 KiB of lines."""

WORD_TYPES = {torch.int64: tl.int64, torch.int32: tl.int32, torch.int16: tl.int16, torch.uint8: tl.uint8}
"""Words of strips as kernels name them."""


@operation
def move_kv_cache(call: Call) -> Launch | None:
    """Copy slots of every buffer as if all sources were read before any target is written.

    One launch for all buffers, whatever their dtypes and widths. A program owns a tile of words of one strip for all
    pairs: it reads each source once and writes each target once. Up to ``MOST_PAIRS_IN_REGISTERS`` pairs wait in
    registers, more in a scratch buffer of the program. ``KVBuffers`` carry the table of addresses; for a list it is
    built in each call, which a CUDA graph cannot capture.
    """
    kv_buffers = call.arguments["kv_buffers"]
    if not kv_buffers or not call.axes["pair"]:
        return None
    return move_strips(call, strips_of(kv_buffers), call.axes["slot"])


def move_strips(call: Call, strips: StripTable, num_slots: int) -> Launch | None:
    """Move all strips by the pairs of a call."""
    num_pairs, num_strips, most_words = call.axes["pair"], strips.num_strips, strips.most_words
    if num_strips == 0:
        return None
    pairs, word_bytes = power_of_two(num_pairs), strips.word.itemsize
    sizes = {"num_pairs": num_pairs, "num_slots": num_slots}
    constants = {"WORD": WORD_TYPES[strips.word], "PAGE": strips.layout.page_slots}
    scratch = {}
    if num_pairs <= MOST_PAIRS_IN_REGISTERS:
        tile_bytes = min(max(TILE_BYTES, LEAST_PROGRAM_BYTES // pairs), MOST_PROGRAM_BYTES // pairs)
        words = choose_block(most_words, max(1, tile_bytes // word_bytes), max(1, LARGEST_TILE // pairs))
        num_tiles = ceil_div(most_words, words)
        plan = Plan(
            kernels._move_kv_cache_kernel,
            grid=(num_strips * num_tiles,),
            sizes={**sizes, "num_tiles": num_tiles},
            constants={**constants, "PAIRS": pairs, "IS_ALIGNED": strips.is_aligned and words > 1},
            tunables={"WORDS": words},
            num_warps=_num_warps(pairs * words * word_bytes),
        )
    else:
        words = choose_block(most_words, TILE_BYTES // word_bytes, LARGEST_TILE // SCRATCH_PAIRS)
        num_tiles = ceil_div(most_words, words)
        num_programs = chunks_to_fill(1, num_strips * num_tiles, SCRATCH_PROGRAMS)
        plan = Plan(
            kernels._move_kv_cache_by_scratch_kernel,
            grid=(num_programs,),
            sizes={**sizes, "num_tiles": num_tiles, "num_strip_tiles": num_strips * num_tiles},
            constants={**constants, "IS_ALIGNED": strips.is_aligned and words > 1},
            tunables={"PAIRS": SCRATCH_PAIRS, "WORDS": words},
            num_warps=_num_warps(SCRATCH_PAIRS * words * word_bytes),
        )
        scratch["scratch"] = call.scratch(num_programs * num_pairs * words, dtype=strips.word)
    # NOTE: the buffers are written through the addresses of the table.
    return Launch(plan, call.contiguous("source_slots", "target_slots"), {"strips": strips.table}, scratch)


def _num_warps(num_bytes: int) -> int:
    """Return enough warps to hold so many bytes."""
    return min(max(power_of_two(num_bytes // WARP_BYTES), 1), MOST_WARPS)
