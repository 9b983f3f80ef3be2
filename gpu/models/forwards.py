"""Model forwards on the GPU: a launch to write a layer's entries, a launch to fold them.

Rows that pad a batch (slot 0, length 1) write the dump slot and read it; they are never out of bounds.
"""

from collections.abc import Sequence
from typing import Any

import torch

from specsim.gpu.kernels.models.forwards import (
    _advance_kernel,
    _fold_pages_kernel,
    _fold_rows_kernel,
    _store_entries_kernel,
)
from specsim.gpu.launching.blocks import INTERPRETED, LARGEST_TILE, ceil_div, choose_block, power_of_two
from specsim.gpu.launching.buffers import prepare


def target_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    tree_mask: torch.Tensor | None = None,
    page_size: int = 1,
) -> torch.Tensor:
    """Write the target KV of the new tokens, then fold what each of them may see into its hidden state.

    A program folds a block of queries of one request; the digest of a key is computed once for all of them.
    """
    axes, (hidden_states,) = prepare("target_forward", locals())
    if not axes["token"] or not axes["request"]:
        return hidden_states
    tokens = input_ids.contiguous(), positions.contiguous(), out_cache_loc.contiguous()
    mask = None if tree_mask is None else tree_mask.contiguous()
    num_layers = axes["layer"]
    for layer in range(num_layers):
        keys, values = kv_buffers[2 * layer : 2 * layer + 2]
        below = None if layer == 0 else hidden_states[:, layer - 1]
        _store_entries(keys, values, tokens, below, layer)
        context_word = hidden_states[:, num_layers] if layer == 0 else None
        _fold_pages(
            keys, values, tokens[1], page_table, cache_seqlens, cu_seqlens_q, mask, page_size,
            hidden_states[:, layer], context_word,
        )  # fmt: skip
    return hidden_states


def draft_extend_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    page_size: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the draft model over several new tokens a request, causal; folds as ``target_forward`` does."""
    axes, (next_hidden_states, context) = prepare("draft_extend_forward", locals())
    if not axes["token"] or not axes["request"]:
        return next_hidden_states, context
    tokens = input_ids.contiguous(), positions.contiguous(), out_cache_loc.contiguous()
    hidden_states = hidden_states.contiguous()
    folds = torch.empty((axes["token"], axes["layer"]), dtype=torch.int64, device=input_ids.device)
    for layer in range(axes["layer"]):
        keys, values = kv_buffers[2 * layer : 2 * layer + 2]
        _store_entries(keys, values, tokens, hidden_states if layer == 0 else folds[:, layer - 1], layer)
        _fold_pages(
            keys, values, tokens[1], page_table, cache_seqlens, cu_seqlens_q, None, page_size, folds[:, layer], None
        )
    _advance(tokens, hidden_states, folds, next_hidden_states, context)
    return next_hidden_states, context


def draft_decode_forward(
    kv_buffers: Sequence[torch.Tensor],
    input_ids: torch.Tensor,
    hidden_states: torch.Tensor,
    positions: torch.Tensor,
    out_cache_loc: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the draft model over one new token a beam; a program folds a block of beams."""
    axes, (next_hidden_states, context) = prepare("draft_decode_forward", locals())
    num_tokens = axes["token"]
    if not num_tokens:
        return next_hidden_states, context
    tokens = input_ids.contiguous(), positions.contiguous(), out_cache_loc.contiguous()
    hidden_states = hidden_states.contiguous()
    folds = torch.empty((num_tokens, axes["layer"]), dtype=torch.int64, device=input_ids.device)
    rows = choose_block(num_tokens, 1, 1024)
    keys_block = 64 if INTERPRETED else 256
    for layer in range(axes["layer"]):
        keys, values = kv_buffers[2 * layer : 2 * layer + 2]
        _store_entries(keys, values, tokens, hidden_states if layer == 0 else folds[:, layer - 1], layer)
        _fold_rows_kernel[(ceil_div(num_tokens, rows),)](
            keys,
            values,
            *keys.stride(),
            *values.stride(),
            kv_indices.contiguous(),
            kv_indptr.contiguous(),
            folds[:, layer],
            folds.stride(0),
            num_tokens,
            ROWS=rows,
            KEYS=keys_block,
        )
    _advance(tokens, hidden_states, folds, next_hidden_states, context)
    return next_hidden_states, context


def _store_entries(
    keys: torch.Tensor, values: torch.Tensor, tokens: tuple[torch.Tensor, ...], below: torch.Tensor | None, layer: int
) -> None:
    """Write a layer's K and V; a matrix below is digested, a column is taken as it is, None is 0."""
    num_tokens = tokens[0].shape[0]
    rows = choose_block(num_tokens, 128, LARGEST_TILE)
    _store_entries_kernel[(ceil_div(num_tokens, rows),)](
        keys,
        values,
        *keys.stride(),
        *values.stride(),
        *tokens,
        below,
        0 if below is None else below.stride(0),
        2 * layer,
        num_tokens,
        NUM_DIGESTED=below.shape[1] if below is not None and below.ndim == 2 else 0,
        ROWS=rows,
    )


def _fold_pages(
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    page_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    tree_mask: torch.Tensor | None,
    page_size: int,
    folds: torch.Tensor,
    context_word: torch.Tensor | None,
) -> None:
    num_requests, num_tokens = cache_seqlens.shape[0], positions.shape[0]
    queries = choose_block(ceil_div(num_tokens, num_requests), 32, 256)
    keys_block = 64 if INTERPRETED else 128
    # NOTE: lengths are on the device; a request of n queries needs ceil(n / queries) items, all together at most this.
    most_items = num_requests + num_tokens // queries
    items = choose_block(most_items, 1, max(1, LARGEST_TILE // (queries * keys_block)))
    _fold_pages_kernel[(ceil_div(most_items, items),)](
        keys,
        values,
        *keys.stride(),
        *values.stride(),
        positions,
        page_table,
        *page_table.stride(),
        cache_seqlens.contiguous(),
        cu_seqlens_q.contiguous(),
        tree_mask,
        folds,
        context_word,
        folds.stride(0),
        page_size,
        num_requests,
        ITEMS=items,
        QUERIES=queries,
        KEYS=keys_block,
        REQUESTS=power_of_two(num_requests),
    )


def _advance(
    tokens: tuple[torch.Tensor, ...],
    hidden_states: torch.Tensor,
    folds: torch.Tensor,
    next_hidden_states: Any,
    context: Any,
) -> None:
    """Advance the hidden states by one token and digest the folds; a program owns a block of rows."""
    num_tokens, num_words = hidden_states.shape
    rows = choose_block(num_tokens, 128, LARGEST_TILE)
    _advance_kernel[(ceil_div(num_tokens, rows),)](
        tokens[0],
        hidden_states,
        tokens[1],
        folds,
        next_hidden_states,
        context,
        num_tokens,
        NUM_WORDS=num_words,
        NUM_LAYERS=folds.shape[1],
        ROWS=rows,
    )
