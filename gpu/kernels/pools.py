"""Kernels of ``specsim.gpu.pools``: a program owns a block of pairs. Indexers move by the kernels of ``move``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _counterparts(slots_ptr, full_to_swa_ptr, pair, is_pair, num_slots):
    slot = tl.load(slots_ptr + pair, mask=is_pair, other=0)
    is_inside = is_pair & (slot >= 0) & (slot < num_slots)
    return tl.load(full_to_swa_ptr + slot, mask=is_inside, other=0).to(tl.int64)


@triton.jit
def _translate_move_slots_kernel(
    target_slots_ptr,
    source_slots_ptr,
    full_to_swa_ptr,
    swa_target_slots_ptr,
    swa_source_slots_ptr,
    num_pairs,
    num_slots,
    PAIRS: tl.constexpr,
):
    follow_previous()
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    is_pair = pair < num_pairs
    target = _counterparts(target_slots_ptr, full_to_swa_ptr, pair, is_pair, num_slots)
    source = _counterparts(source_slots_ptr, full_to_swa_ptr, pair, is_pair, num_slots)
    tl.store(swa_target_slots_ptr + pair, target, mask=is_pair)
    tl.store(swa_source_slots_ptr + pair, source, mask=is_pair)
