"""Kernels of ``specsim.gpu.multi_layer``: a program owns a request, or some words of its hidden states."""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _segment(extend_start_loc_ptr, lengths_ptr, request, num_tokens):
    """Return where the tokens of a request start and how many there are, cut to those that exist."""
    start = tl.load(extend_start_loc_ptr + request)
    start = tl.minimum(tl.maximum(start, 0), num_tokens)
    length = tl.load(lengths_ptr + request)
    return start, tl.minimum(tl.maximum(length, 0), num_tokens - start)


@triton.jit
def _rotate_input_ids_kernel(
    input_ids_ptr,
    extend_start_loc_ptr,
    extend_seq_lens_ptr,
    next_tokens_ptr,
    select_index_ptr,
    token_stride,
    num_tokens,
    TOKENS: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0)
    start, length = _segment(extend_start_loc_ptr, extend_seq_lens_ptr, request, num_tokens)
    token = tl.load(next_tokens_ptr + request)
    chosen = (start + length - 1).to(tl.int64)
    if select_index_ptr is not None:
        chosen = tl.load(select_index_ptr + request)
    for first in range(0, length, TOKENS):
        cell = first + tl.arange(0, TOKENS)
        is_cell = cell < length
        source = (start + tl.minimum(cell + 1, length - 1)).to(tl.int64)
        following = tl.load(input_ids_ptr + source * token_stride, mask=is_cell, other=0)
        # NOTE: what a thread reads another one writes.
        tl.debug_barrier()
        place = (start + cell).to(tl.int64)
        tl.store(input_ids_ptr + place * token_stride, tl.where(place == chosen, token, following), mask=is_cell)


@triton.jit
def _assign_new_state_kernel(
    window_ptrs,
    next_tokens_ptr,
    num_padding_ptr,
    req_pool_indices_ptr,
    req_to_token_ptr,
    forward_seq_lens_ptr,
    hidden_states_pool_ptr,
    next_window_ptrs,
    num_tokens,
    rows,
    num_words,
    num_kept,
    draft_layer,
    TOKENS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Write a request's window grown by one; each program some words of its hidden states, the first all else."""
    follow_previous()
    input_ids_ptr, positions_ptr, out_cache_loc_ptr, hidden_states_ptr = window_ptrs[:4]
    extend_start_loc_ptr, extend_seq_lens_ptr = window_ptrs[4:]
    next_input_ids_ptr, next_positions_ptr, next_out_cache_loc_ptr, next_hidden_states_ptr = next_window_ptrs[:4]
    next_extend_start_loc_ptr, next_extend_seq_lens_ptr = next_window_ptrs[4:]
    num_rows, row_width, row_stride, position_stride = rows
    # Windows grow out of place, so that no thread reads what another one writes, and no barrier is needed.
    request = tl.program_id(0)
    start, length = _segment(extend_start_loc_ptr, extend_seq_lens_ptr, request, num_tokens)
    row = tl.load(req_pool_indices_ptr + request)
    row = tl.where((row >= 0) & (row < num_rows), row, 0)
    earlier = tl.load(forward_seq_lens_ptr + request) - length - 1
    is_there = (earlier >= 0) & (earlier < row_width)
    into = (start + request).to(tl.int64)
    is_first_chunk = tl.program_id(1) == 0
    if is_first_chunk:
        tl.store(next_extend_start_loc_ptr + request, into.to(tl.int32))
        tl.store(next_extend_seq_lens_ptr + request, length + 1)
    proposed = length - tl.load(num_padding_ptr + request)
    token = tl.load(next_tokens_ptr + request)
    slot_before = tl.load(req_to_token_ptr + row * row_stride + earlier * position_stride, mask=is_there, other=0)
    position_before = tl.maximum(tl.load(positions_ptr + start, mask=length > 0, other=0) - 1, 0)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    is_word = word < num_words
    waiting = (row * num_kept + num_kept - 1 - draft_layer) * num_words
    hidden_before = tl.load(hidden_states_pool_ptr + waiting + word, mask=is_word & is_there, other=0)
    for first in range(0, length + 1, TOKENS):
        cell = first + tl.arange(0, TOKENS)
        is_cell = cell <= length
        is_grown = cell == 0
        old = (start + cell).to(tl.int64)
        is_kept = is_cell & (cell > 0)
        if is_first_chunk:
            same = tl.load(input_ids_ptr + old, mask=cell < length, other=0)
            tl.store(next_input_ids_ptr + into + cell, tl.where(cell == proposed, token, same), mask=is_cell)
            position = tl.load(positions_ptr + old - 1, mask=is_kept, other=0)
            tl.store(next_positions_ptr + into + cell, tl.where(is_grown, position_before, position), mask=is_cell)
            slot = tl.load(out_cache_loc_ptr + old - 1, mask=is_kept, other=0)
            slot = tl.where(is_grown, slot_before.to(tl.int64), slot)
            tl.store(next_out_cache_loc_ptr + into + cell, slot, mask=is_cell)
        source = (old - 1)[:, None] * num_words + word[None, :]
        hidden = tl.load(hidden_states_ptr + source, mask=is_kept[:, None] & is_word[None, :], other=0)
        hidden = tl.where(is_grown[:, None], hidden_before[None, :], hidden)
        target = (into + cell)[:, None] * num_words + word[None, :]
        tl.store(next_hidden_states_ptr + target, hidden, mask=is_cell[:, None] & is_word[None, :])


@triton.jit
def _assign_hidden_states_pool_kernel(
    hidden_states_ptr,
    extend_start_loc_ptr,
    num_committed_ptr,
    req_pool_indices_ptr,
    hidden_states_pool_ptr,
    num_tokens,
    num_rows,
    num_words,
    num_kept,
    WORDS: tl.constexpr,
):
    follow_previous()
    request = tl.program_id(0)
    start, count = _segment(extend_start_loc_ptr, num_committed_ptr, request, num_tokens)
    row = tl.load(req_pool_indices_ptr + request)
    is_live = (row > 0) & (row < num_rows)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    is_word = (word < num_words) & is_live
    own = row * num_kept * num_words + word
    for place in range(0, num_kept):
        after = (place + count - num_kept).to(tl.int64)
        is_kept = after < 0
        kept = tl.load(hidden_states_pool_ptr + own + (place + count) * num_words, mask=is_word & is_kept, other=0)
        added = tl.load(hidden_states_ptr + (start + after) * num_words + word, mask=is_word & (after >= 0), other=0)
        # NOTE: an entry that is read now is written by a later step, perhaps of another thread.
        tl.debug_barrier()
        tl.store(hidden_states_pool_ptr + own + place * num_words, tl.where(is_kept, kept, added), mask=is_word)
