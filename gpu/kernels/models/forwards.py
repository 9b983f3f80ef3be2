"""Kernels of ``specsim.gpu.models.forwards``.

A forward writes one layer's entries, then folds them, layer after layer. Folds are sums of 32-bit digests, so that
their order does not matter and wrapping unsigned words are exact.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.hashing import GOLDEN, digest_entry, digest_row, mix
from specsim.gpu.kernels.device.ranges import count_ranges
from specsim.gpu.kernels.device.succession import follow_previous


@triton.jit
def _store_entries_kernel(
    keys_ptr,
    values_ptr,
    input_ids_ptr,
    positions_ptr,
    out_cache_loc_ptr,
    below_ptr,
    key_slot_stride,
    key_word_stride,
    value_slot_stride,
    value_word_stride,
    below_stride,
    component,
    num_tokens,
    num_slots,
    NUM_DIGESTED: tl.constexpr,
    ROWS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    is_row = row < num_tokens
    position = tl.load(positions_ptr + row, mask=is_row, other=0)
    token = tl.load(input_ids_ptr + row, mask=is_row, other=0)
    slot = tl.load(out_cache_loc_ptr + row, mask=is_row, other=0)
    if below_ptr is None:
        context = tl.zeros([ROWS], dtype=tl.int64)
    elif NUM_DIGESTED == 0:
        context = tl.load(below_ptr + row * below_stride, mask=is_row, other=0)
    else:
        context = digest_row(below_ptr, row, is_row, below_stride, NUM_DIGESTED, ROWS).to(tl.int64)
    is_slot = is_row & (slot >= 0) & (slot < num_slots)
    key_ptr = keys_ptr + slot * key_slot_stride
    tl.store(key_ptr, position, mask=is_slot)
    tl.store(key_ptr + key_word_stride, token, mask=is_slot)
    tl.store(key_ptr + 2 * key_word_stride, context, mask=is_slot)
    tl.store(key_ptr + 3 * key_word_stride, tl.zeros([ROWS], dtype=tl.int64) + component, mask=is_slot)
    value_ptr = values_ptr + slot * value_slot_stride
    tl.store(value_ptr, position, mask=is_slot)
    tl.store(value_ptr + value_word_stride, token, mask=is_slot)
    tl.store(value_ptr + 2 * value_word_stride, context, mask=is_slot)
    tl.store(value_ptr + 3 * value_word_stride, tl.zeros([ROWS], dtype=tl.int64) + component + 1, mask=is_slot)


@triton.jit
def _locate_item(item, cu_seqlens_q_ptr, num_requests, num_tokens, QUERIES: tl.constexpr, REQUESTS: tl.constexpr):
    """Find the request of each item, and the item's number in it; a request has one item for every QUERIES queries."""
    index = tl.arange(0, REQUESTS)
    is_request = index < num_requests
    begin = tl.load(cu_seqlens_q_ptr + index, mask=is_request, other=0)
    end = tl.load(cu_seqlens_q_ptr + index + 1, mask=is_request, other=0)
    num_queries = tl.minimum(tl.maximum(end - begin, 0), num_tokens)
    request, num_before = count_ranges(item, (num_queries + QUERIES - 1) // QUERIES, is_request, 0)
    return request, item - num_before


@triton.jit
def _fold_pages_kernel(
    kv_ptrs,
    positions_ptr,
    page_table_ptr,
    length_ptrs,
    tree_mask_ptr,
    folds_ptr,
    context_word_ptr,
    kv_strides,
    page_strides,
    fold_stride,
    page_size,
    num_requests,
    num_tokens,
    num_positions,
    num_slots,
    num_mask_entries,
    ITEMS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """Fold what blocks of queries see of a layer; an item is one block of one request, found from the lengths."""
    follow_previous()
    keys_ptr, values_ptr = kv_ptrs
    cache_seqlens_ptr, cu_seqlens_q_ptr = length_ptrs
    key_slot_stride, key_word_stride, value_slot_stride, value_word_stride = kv_strides
    page_row_stride, page_stride = page_strides
    # Entries of the layer were written by the launch before; a row of folds belongs to one item, which alone writes it.
    item = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
    request, block = _locate_item(item, cu_seqlens_q_ptr, num_requests, num_tokens, QUERIES, REQUESTS)
    is_item = request < num_requests
    begin = tl.load(cu_seqlens_q_ptr + request, mask=is_item, other=0)
    num_queries = tl.load(cu_seqlens_q_ptr + request + 1, mask=is_item, other=0) - begin
    num_keys = tl.minimum(tl.load(cache_seqlens_ptr + request, mask=is_item, other=0), num_positions)
    num_prefix = num_keys - num_queries
    request = request.to(tl.int64)
    query = block[:, None] * QUERIES + tl.arange(0, QUERIES)[None, :]
    row = begin.to(tl.int64)[:, None] + query
    is_query = is_item[:, None] & (query < num_queries[:, None]) & (row >= 0) & (row < num_tokens)
    fold = tl.zeros([ITEMS, QUERIES], dtype=tl.uint32)
    context_word = tl.zeros([ITEMS, QUERIES], dtype=tl.uint32)
    position = tl.load(positions_ptr + row, mask=is_query, other=0)
    square = (request * num_queries * num_queries)[:, None, None] + (query * num_queries[:, None])[:, :, None]

    for first in range(0, tl.max(num_keys, 0), KEYS):
        key = first + tl.arange(0, KEYS)
        is_key = key[None, :] < num_keys[:, None]
        page_ptr = page_table_ptr + request[:, None] * page_row_stride + (key // page_size)[None, :] * page_stride
        page = tl.load(page_ptr, mask=is_key, other=0).to(tl.int64)
        slot = page * page_size + (key % page_size)[None, :]
        is_slot = is_key & (slot >= 0) & (slot < num_slots)
        new = key[None, :] - num_prefix[:, None]
        if tree_mask_ptr is None:
            is_visible = new[:, None, :] <= query[:, :, None]
        else:
            entry = square + new[:, None, :]
            is_new = (
                is_query[:, :, None] & ((new >= 0) & is_key)[:, None, :] & (entry >= 0) & (entry < num_mask_entries)
            )
            is_seen = tl.load(tree_mask_ptr + entry, mask=is_new, other=0)
            is_visible = (new < 0)[:, None, :] | (is_seen != 0)
        is_visible = is_visible & is_key[:, None, :]
        word = digest_entry(keys_ptr, slot, key_slot_stride, key_word_stride, is_slot)
        word += digest_entry(values_ptr, slot, value_slot_stride, value_word_stride, is_slot)
        fold += tl.sum(tl.where(is_visible, word[:, None, :], 0), 2)
        if context_word_ptr is not None:
            key_position = tl.load(keys_ptr + slot * key_slot_stride, mask=is_slot, other=0)
            token = tl.load(keys_ptr + slot * key_slot_stride + key_word_stride, mask=is_slot, other=0).to(tl.uint32)
            distance = position[:, :, None] - key_position[:, None, :]
            is_near = is_visible & (distance >= 0) & (distance < 4)
            shift = tl.where(is_near, 8 * distance, 0).to(tl.uint32)
            context_word += tl.sum(tl.where(is_near, token[:, None, :] << shift, 0), 2)

    tl.store(folds_ptr + row * fold_stride, fold.to(tl.int64), mask=is_query)
    if context_word_ptr is not None:
        tl.store(context_word_ptr + row * fold_stride, context_word.to(tl.int64), mask=is_query)


@triton.jit
def _fold_rows_kernel(
    keys_ptr,
    values_ptr,
    kv_indices_ptr,
    kv_indptr_ptr,
    folds_ptr,
    key_slot_stride,
    key_word_stride,
    value_slot_stride,
    value_word_stride,
    fold_stride,
    num_tokens,
    num_locations,
    num_slots,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    is_row = row < num_tokens
    begin = tl.load(kv_indptr_ptr + row, mask=is_row, other=0)
    num_keys = tl.minimum(tl.load(kv_indptr_ptr + row + 1, mask=is_row, other=0) - begin, num_locations)
    fold = tl.zeros([ROWS], dtype=tl.uint32)
    for first in range(0, tl.max(num_keys, 0), KEYS):
        key = first + tl.arange(0, KEYS)
        is_key = key[None, :] < num_keys[:, None]
        place = begin.to(tl.int64)[:, None] + key[None, :]
        is_place = is_key & (place >= 0) & (place < num_locations)
        slot = tl.load(kv_indices_ptr + place, mask=is_place, other=0).to(tl.int64)
        is_slot = is_key & (slot >= 0) & (slot < num_slots)
        word = digest_entry(keys_ptr, slot, key_slot_stride, key_word_stride, is_slot)
        word += digest_entry(values_ptr, slot, value_slot_stride, value_word_stride, is_slot)
        fold += tl.sum(tl.where(is_key, word, 0), 1)
    tl.store(folds_ptr + row * fold_stride, fold.to(tl.int64), mask=is_row)


@triton.jit
def _advance_kernel(
    input_ids_ptr,
    hidden_states_ptr,
    positions_ptr,
    folds_ptr,
    next_hidden_states_ptr,
    context_ptr,
    num_tokens,
    NUM_WORDS: tl.constexpr,
    NUM_LAYERS: tl.constexpr,
    ROWS: tl.constexpr,
):
    follow_previous()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS).to(tl.int64)
    is_row = row < num_tokens
    token = tl.load(input_ids_ptr + row, mask=is_row, other=0).to(tl.uint32)
    position = tl.load(positions_ptr + row, mask=is_row, other=0).to(tl.uint32) + 1
    tag = mix(mix(position + GOLDEN) + token)
    below = tl.zeros([ROWS], dtype=tl.uint32)
    for layer in range(NUM_WORDS - 1):
        hidden = tl.load(hidden_states_ptr + row * NUM_WORDS + layer, mask=is_row, other=0).to(tl.uint32)
        inner = mix(tag + below)
        component = tl.zeros([ROWS], dtype=tl.uint32) + 2 * layer
        below = hidden + mix(inner + component) + mix(inner + component + 1)
        tl.store(next_hidden_states_ptr + row * NUM_WORDS + layer, below.to(tl.int64), mask=is_row)
    last = row * NUM_WORDS + NUM_WORDS - 1
    word = (tl.load(hidden_states_ptr + last, mask=is_row, other=0).to(tl.uint32) << 8) + token
    tl.store(next_hidden_states_ptr + last, word.to(tl.int64), mask=is_row)
    context = digest_row(folds_ptr, row, is_row, NUM_LAYERS, NUM_LAYERS, ROWS)
    tl.store(context_ptr + row, context.to(tl.int64), mask=is_row)
