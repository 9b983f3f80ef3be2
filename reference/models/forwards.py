"""Model forwards over tagged KV: what was written, and what each token may see.

A KV entry is four words: position, token, context (the layer below at that token) and component (two a layer, for K
and V). A layer folds the digests of all visible entries, in any order, into one word of the hidden state.
"""

from collections.abc import Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import MASK, digest_rows
from specsim.operations.outputs import DraftDecodeForwardOutputs, DraftExtendForwardOutputs
from specsim.reference.models.folds import Digests, ListedSlots, OwnKeys, Sight, own_keys, read_digests
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
    check_call("target_forward", locals())
    sight = own_keys(page_table, cache_seqlens, cu_seqlens_q, tree_mask, page_size)
    return run_target(kv_buffers, input_ids, positions, out_cache_loc, sight, read_digests(kv_buffers, sight))


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
    check_call("draft_extend_forward", locals())
    sight = own_keys(page_table, cache_seqlens, cu_seqlens_q, None, page_size)
    digests = read_digests(kv_buffers, sight)
    return run_draft(kv_buffers, input_ids, positions, out_cache_loc, hidden_states, sight, digests)


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
    check_call("draft_decode_forward", locals())
    sight = ListedSlots(kv_indices, kv_indptr)
    digests = read_digests(kv_buffers, sight)
    return DraftDecodeForwardOutputs(
        *run_draft(kv_buffers, input_ids, positions, out_cache_loc, hidden_states, sight, digests)
    )


def run_target(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    positions: Array,
    out_cache_loc: Array,
    sight: OwnKeys,
    digests: Digests,
) -> Array:
    """Run the target layer by layer: write the tags of all new tokens, then fold what each of them sees."""
    num_layers = len(kv_buffers) // 2
    hidden_states = np.zeros((len(input_ids), num_layers + 1), dtype=np.int64)
    context = np.zeros(len(input_ids), dtype=np.int64)
    for layer in range(num_layers):
        write_tags(kv_buffers, layer, input_ids, positions, context, out_cache_loc)
        hidden_states[:, layer] = context = sight.fold(digests(layer))
    hidden_states[:, num_layers] = sight.context_words(kv_buffers[0], positions)
    return hidden_states


def run_draft(
    kv_buffers: Sequence[Array],
    input_ids: Array,
    positions: Array,
    out_cache_loc: Array,
    hidden_states: Array,
    sight: Sight,
    digests: Digests,
) -> DraftExtendForwardOutputs[Array]:
    """Write the draft KV, fold what each token sees, and advance the hidden states by one token."""
    folds = np.zeros((len(input_ids), len(kv_buffers) // 2), dtype=np.int64)
    context = digest_rows(hidden_states)
    for layer in range(folds.shape[1]):
        write_tags(kv_buffers, layer, input_ids, positions, context, out_cache_loc)
        folds[:, layer] = context = sight.fold(digests(layer))
    return DraftExtendForwardOutputs(advance(hidden_states, input_ids, positions + 1), digest_rows(folds))


def advance(hidden_states: Array, input_ids: Array, positions: Array) -> Array:
    """Return what hidden states of the target come to after one more token, which stands at a position."""
    next_hidden_states = np.zeros_like(hidden_states)
    below = np.zeros(len(input_ids), dtype=np.int64)
    for layer in range(hidden_states.shape[1] - 1):
        below = hidden_states[:, layer] + digest_rows(tags(layer, input_ids, positions, below)).sum(axis=0)
        below &= MASK
        next_hidden_states[:, layer] = below
    next_hidden_states[:, -1] = ((hidden_states[:, -1] << 8) + input_ids) & MASK
    return next_hidden_states


def write_tags(
    kv_buffers: Sequence[Array], layer: int, input_ids: Array, positions: Array, context: Array, out_cache_loc: Array
) -> None:
    """Write the tags of new tokens into K and V of a layer; of two tokens with one slot the later one stays."""
    entries = tags(layer, input_ids, positions, context)
    for buffer, written in zip(kv_buffers[2 * layer : 2 * layer + 2], entries, strict=True):
        buffer[out_cache_loc] = written


def tags(layer: int, input_ids: Array, positions: Array, context: Array) -> Array:
    """Return int64 [2, token, 4]: the tags of tokens in K and in V of a layer, whose lower layer says ``context``."""
    entries = np.zeros((2, len(input_ids), 4), dtype=np.int64)
    entries[..., 0], entries[..., 1], entries[..., 2] = positions, input_ids, context
    entries[0, :, 3], entries[1, :, 3] = 2 * layer, 2 * layer + 1
    return entries
