"""The layers of a toy model that see a sliding window, and what the model makes of them.

Their entries say what the lowest layer that sees everything says: position and token. Whatever a token reads in its
window that differs from what that layer has there goes into its hidden state, and as long as nothing is wrong that is
nothing: the output is the one of a model without such layers. An entry that was given away, moved to another place or
never written differs.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import GOLDEN, MASK, digest_rows
from specsim.simulation.models.batches import TargetBatch, WindowKeys
from specsim.simulation.models.pool_kinds import SWA_COMPONENT, SWA_KEYS, SWA_VALUES


def disturb(hidden_states: Array, batch: TargetBatch[Array], keys: Sequence[Array]) -> Array:
    """Write the entries of the new tokens, and return hidden states with what differs in the window of each.

    Parameters
    ----------
    hidden_states : int64 [token, hidden]
        What the layers that see everything come to.
    keys : sequence of int64 [slot, 4]
        Keys of these layers, from the lowest.
    """
    window_keys = batch.window_keys
    if window_keys is None:
        return hidden_states
    buffers = [window_keys.kv[name][0] for name in (SWA_KEYS, SWA_VALUES)]
    known = np.stack([batch.positions, batch.input_ids], axis=1)
    for component, buffer in enumerate(buffers):
        buffer[window_keys.out_cache_loc] = entries_of(known, component)
    difference = np.zeros(len(hidden_states), dtype=np.int64)
    ends = batch.keys.cu_seqlens_q.tolist()
    for request, (start, end) in enumerate(pairwise(ends)):
        difference[start:end] = _differences(request, slice(start, end), batch, window_keys, buffers, keys[0])
    disturbed = hidden_states.copy()
    disturbed[:, -2:] = (hidden_states[:, -2:] + difference[:, None] * GOLDEN) & MASK
    return disturbed


def entries_of(known: Array, component: int) -> Array:
    """Return int64 [entry, 4], the entries of positions and tokens: keys are component 0, values 1."""
    entries = np.zeros((len(known), 4), dtype=np.int64)
    entries[:, :2], entries[:, 3] = known, SWA_COMPONENT + component
    return entries


def _differences(
    request: int,
    tokens: slice,
    batch: TargetBatch[Array],
    window_keys: WindowKeys[Array],
    buffers: Sequence[Array],
    lowest: Array,
) -> Array:
    """Return int64 [token]: by how much what each new token of a request reads differs from what should be there."""
    own = batch.positions[tokens]
    num_prefix = int(batch.keys.cache_seqlens[request]) - len(own)
    first = max(0, int(own.min(initial=num_prefix)) - window_keys.window + 1)
    first = min(first, num_prefix)
    key_positions = np.concatenate([np.arange(first, num_prefix), own])
    is_seen = np.ones((len(own), len(key_positions)), dtype=np.bool_)
    is_seen[:, num_prefix - first :] = _sees(request, len(own), batch)
    is_seen &= own[:, None] - key_positions < window_keys.window
    places = np.arange(first, num_prefix + len(own))
    known = lowest[batch.keys.page_table[request, places], :2]
    slots = window_keys.page_table[request, places]
    words = np.zeros(len(places), dtype=np.int64)
    for component, buffer in enumerate(buffers):
        words += digest_rows(buffer[slots]) - digest_rows(entries_of(known, component))
    differences: Array = np.where(is_seen, words, 0).sum(axis=1)
    return differences


def _sees(request: int, width: int, batch: TargetBatch[Array]) -> Array:
    """Return bool [token, token]: which new tokens of a request are on the paths of which."""
    if batch.tree_mask is None:
        return np.tri(width, dtype=np.bool_)
    sees: Array = batch.tree_mask.reshape(-1, width, width)[request]
    return sees
