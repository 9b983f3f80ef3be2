"""Kernel of ``specsim.gpu.models.frozen_forwards``; the target's entries are folded by the one of ``forwards``."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.hashing import GOLDEN, digest_row, mix
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _advance_frozen_kernel(
    input_ids_ptr,
    hidden_states_ptr,
    positions_ptr,
    target_layers_ptr,
    folds_ptr,
    next_hidden_states_ptr,
    foreseen_hidden_states_ptr,
    context_ptr,
    num_tokens,
    depth,
    NUM_WORDS: tl.constexpr,
    NUM_LAYERS: tl.constexpr,
    IS_SEED: tl.constexpr,
    ROWS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    is_row = row < num_tokens
    token = tl.load(input_ids_ptr + row, mask=is_row, other=0).to(tl.uint32)
    position = tl.load(positions_ptr + row, mask=is_row, other=0) + depth
    tag = mix(mix(position.to(tl.uint32) + GOLDEN) + token)
    below = tl.zeros([ROWS], dtype=tl.uint32)
    for word in range(NUM_WORDS - 1):
        hidden = tl.load(hidden_states_ptr + row * NUM_WORDS + word, mask=is_row, other=0).to(tl.uint32)
        known = tl.zeros([ROWS], dtype=tl.uint32)
        state = hidden
        for layer in range(NUM_LAYERS):
            is_read = tl.load(target_layers_ptr + layer) == word
            fold = tl.load(folds_ptr + row * NUM_LAYERS + layer, mask=is_row & is_read, other=0).to(tl.uint32)
            known += fold
            if IS_SEED:
                state += tl.where(is_read, (hidden - fold) * GOLDEN, 0)
            else:
                state += fold
        inner = mix(tag + below)
        component = tl.zeros([ROWS], dtype=tl.uint32) + 2 * word
        below = state + mix(inner + component) + mix(inner + component + 1)
        tl.store(foreseen_hidden_states_ptr + row * NUM_WORDS + word, below.to(tl.int64), mask=is_row)
        tl.store(next_hidden_states_ptr + row * NUM_WORDS + word, (below - known).to(tl.int64), mask=is_row)
    last = row * NUM_WORDS + NUM_WORDS - 1
    recent = (tl.load(hidden_states_ptr + last, mask=is_row, other=0).to(tl.uint32) << 8) + token
    tl.store(foreseen_hidden_states_ptr + last, recent.to(tl.int64), mask=is_row)
    tl.store(next_hidden_states_ptr + last, recent.to(tl.int64), mask=is_row)
    context = digest_row(folds_ptr, row, is_row, NUM_LAYERS, NUM_LAYERS, ROWS)
    tl.store(context_ptr + row, context.to(tl.int64), mask=is_row)
