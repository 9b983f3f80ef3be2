"""Model forwards over tagged KV: what was written, and what each token may see.

A KV entry is four words: position, token, context (the layer below at that token) and component (two a layer, for K
and V). A layer folds the digests of all visible entries, in any order, into one word of the hidden state.
"""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import MASK, digest, digest_rows
from specsim.operations.outputs import DraftDecodeForwardOutputs, DraftExtendForwardOutputs
from specsim.validation.checking import check_call


def target_forward(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    positions: Array,
    out_cache_loc: Array,
    page_table: Array,
    cache_seqlens: Array,
    cu_seqlens_q: Array,
    tree_mask: Array | None = None,
    page_size: int = 1,
) -> Array:
    """Write the target KV of the new tokens, then fold what each of them may see into its hidden state.

    Parameters
    ----------
    kv_buffers : list of int64 [slot, 4]
        K and V of each layer, in turn; written in place at ``out_cache_loc``.
    input_ids, positions, out_cache_loc : int64 [token]
        Token, position and slot of each new entry.
    page_table : int32 [request, page]
        Page of each page-sized run of positions.
    cache_seqlens : int32 [request]
        Keys of each request, the new ones included; the new tokens are the last keys.
    cu_seqlens_q : int32 [request+1]
        Where each request's tokens start.
    tree_mask : bool [visibility] or None
        One square a request: which new tokens see which; None for causal.
    page_size : int
        Slots a page.

    Returns
    -------
    hidden_states : int64 [token, layer+1]
        One fold a layer, then the context word: the last four tokens, newest in the low byte.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: the tokens are not the last keys.

    Notes
    -----
    Source: semantics, tagged KV.
    """
    axes = check_call("target_forward", locals())
    page_size = axes["page_size"]
    num_layers = axes["layer"]
    hidden_states = np.zeros((axes["token"], num_layers + 1), dtype=np.int64)
    visible_slots = list_visible_slots(page_table, cache_seqlens, cu_seqlens_q, tree_mask, page_size)
    for layer in range(num_layers):
        keys, values = kv_buffers[2 * layer : 2 * layer + 2]
        for row in range(axes["token"]):
            context = 0 if layer == 0 else hidden_states[row, layer - 1]
            keys[out_cache_loc[row]] = [positions[row], input_ids[row], context, 2 * layer]
            values[out_cache_loc[row]] = [positions[row], input_ids[row], context, 2 * layer + 1]
        for row in range(axes["token"]):
            hidden_states[row, layer] = fold(keys, values, visible_slots[row])
    for row in range(axes["token"]):
        seen = kv_buffers[0][visible_slots[row]]
        for distance in range(4):
            tokens = seen[positions[row] - seen[:, 0] == distance, 1]
            hidden_states[row, num_layers] += np.sum(tokens << (8 * distance))
        hidden_states[row, num_layers] &= MASK
    return hidden_states


def draft_extend_forward(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    hidden_states: Array,
    positions: Array,
    out_cache_loc: Array,
    page_table: Array,
    cache_seqlens: Array,
    cu_seqlens_q: Array,
    page_size: int = 1,
) -> DraftExtendForwardOutputs[Array]:
    """Run the draft model over several new tokens a request, causal.

    Parameters
    ----------
    kv_buffers : list of int64 [slot, 4]
        K and V of each draft layer, in turn; written in place at ``out_cache_loc``.
    input_ids : int64 [token]
        At draft position p the token of target position p+1.
    hidden_states : int64 [token, hidden]
        Hidden state of target position p.
    positions, out_cache_loc : int64 [token]
        Draft position and slot of each new entry.
    page_table, cache_seqlens, cu_seqlens_q, page_size
        As for ``target_forward``.

    Returns
    -------
    next_hidden_states : int64 [token, hidden]
        What the target's hidden state of position p+1 will be if the draft cache plays no part in it.
    context : int64 [token]
        Digest of the folds of the draft cache.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: the tokens are not the last keys.

    Notes
    -----
    Source: semantics D.6, tagged KV.
    """
    axes = check_call("draft_extend_forward", locals())
    page_size = axes["page_size"]
    visible_slots = list_visible_slots(page_table, cache_seqlens, cu_seqlens_q, None, page_size)
    return DraftExtendForwardOutputs(
        *draft_forward(kv_buffers, input_ids, hidden_states, positions, out_cache_loc, visible_slots)
    )


def draft_decode_forward(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    hidden_states: Array,
    positions: Array,
    out_cache_loc: Array,
    kv_indices: Array,
    kv_indptr: Array,
) -> DraftDecodeForwardOutputs[Array]:
    """Run the draft model over one new token a beam, each beam with its own list of slots.

    Parameters
    ----------
    kv_buffers, input_ids, hidden_states, positions, out_cache_loc
        As for ``draft_extend_forward``; one token a beam.
    kv_indices : int32 [index]
        Visible slots, beam after beam, each beam's new slot among them.
    kv_indptr : int32 [token+1]
        Where each beam's slots start.

    Returns
    -------
    next_hidden_states : int64 [token, hidden]
        As for ``draft_extend_forward``.
    context : int64 [token]
        Digest of the folds of the draft cache.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE; INCONSISTENT_LENGTHS: the offsets descend.

    Notes
    -----
    Source: semantics A.4, tagged KV.
    """
    axes = check_call("draft_decode_forward", locals())
    visible_slots = [kv_indices[kv_indptr[row] : kv_indptr[row + 1]] for row in range(axes["token"])]
    return DraftDecodeForwardOutputs(
        *draft_forward(kv_buffers, input_ids, hidden_states, positions, out_cache_loc, visible_slots)
    )


def draft_forward(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    hidden_states: Array,
    positions: Array,
    out_cache_loc: Array,
    visible_slots: Sequence[Array],
) -> tuple[Array, Array]:
    """Write the draft KV, fold what each token sees, and advance the hidden states by one token."""
    num_tokens, num_words = hidden_states.shape
    num_layers = len(kv_buffers) // 2
    folds = np.zeros((num_tokens, num_layers), dtype=np.int64)
    for layer in range(num_layers):
        keys, values = kv_buffers[2 * layer : 2 * layer + 2]
        for row in range(num_tokens):
            context = digest(hidden_states[row].tolist()) if layer == 0 else folds[row, layer - 1]
            keys[out_cache_loc[row]] = [positions[row], input_ids[row], context, 2 * layer]
            values[out_cache_loc[row]] = [positions[row], input_ids[row], context, 2 * layer + 1]
        for row in range(num_tokens):
            folds[row, layer] = fold(keys, values, visible_slots[row])

    next_hidden_states = np.zeros_like(hidden_states)
    context = np.zeros(num_tokens, dtype=np.int64)
    for row in range(num_tokens):
        token, position = int(input_ids[row]), int(positions[row]) + 1
        below = 0
        for layer in range(num_words - 1):
            tags = [digest([position, token, below, component]) for component in (2 * layer, 2 * layer + 1)]
            below = (int(hidden_states[row, layer]) + sum(tags)) & MASK
            next_hidden_states[row, layer] = below
        next_hidden_states[row, -1] = ((int(hidden_states[row, -1]) << 8) + token) & MASK
        context[row] = digest(folds[row].tolist())
    return next_hidden_states, context


def fold(keys: Array, values: Array, slots: Array) -> int:
    """Add up the digests of the visible entries of one layer; the order does not matter."""
    return int(np.sum(digest_rows(keys[slots])) + np.sum(digest_rows(values[slots]))) & MASK


def list_visible_slots(
    page_table: Array, cache_seqlens: Array, cu_seqlens_q: Array, tree_mask: Array | None, page_size: int
) -> list[Array]:
    """List the slots that each new token sees: the prefix, and the new tokens that the mask or causality allows."""
    visible_slots = []
    for request in range(len(cache_seqlens)):
        num_queries = int(cu_seqlens_q[request + 1] - cu_seqlens_q[request])
        position = np.arange(cache_seqlens[request])
        slots = page_table[request, position // page_size] * page_size + position % page_size
        prefix = len(slots) - num_queries
        square = np.tril(np.ones((num_queries, num_queries), dtype=np.bool_))
        if tree_mask is not None:
            square = tree_mask.reshape(-1, num_queries, num_queries)[request]
        for query in range(num_queries):
            visible_slots.append(np.concatenate([slots[:prefix], slots[prefix:][square[query]]]))
    return visible_slots
