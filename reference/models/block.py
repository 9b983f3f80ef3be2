"""The toy draft that drafts a block at once: its entry of a position holds what the target's features say there."""

from collections.abc import Mapping, Sequence

import numpy as np

from specsim.conformance.arrays import Array
from specsim.hashing import GOLDEN, MASK, digest_rows
from specsim.reference.models.stored import layers_of
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.block import FeatureBatch
from specsim.simulation.models.block_room import WORDS_OF_A_LAYER, require_room
from specsim.simulation.models.pool_kinds import Form

KV = Mapping[str, Sequence[Array]]


def store_features(form: Form, kv: KV, batch: FeatureBatch[Array], num_words: int) -> None:
    """Write K and V of every layer: position, two words of the features, component.

    The ``num_words`` words of the features are kept as they are; one word digests them.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: the layers of the draft have no room for the words.
    """
    layers = layers_of(form, kv)
    require_room(num_words, len(layers))
    words = np.zeros((len(batch.positions), WORDS_OF_A_LAYER * len(layers)), dtype=np.int64)
    words[:, :num_words] = batch.features[:, :num_words]
    words[:, num_words : num_words + 1] = digest_rows(batch.features)[:, None]
    for layer, buffers in enumerate(layers):
        for which in (0, 1):
            component = 2 * layer + which
            own = words[:, 2 * component : 2 * component + 2]
            ends = np.full(len(words), component)
            tags = np.stack([batch.positions, own[:, 0], own[:, 1], ends], axis=1)
            form.write(buffers, which, batch.out_cache_loc, tags)


def features_after(form: Form, kv: KV, slots: Array, positions: Array, num_words: int) -> Array:
    """Return the features that entries hold, int64 [request, hidden], spoilt where they lie elsewhere."""
    found = [form.read(buffers, which, slots) for buffers in layers_of(form, kv) for which in (0, 1)]
    words = np.concatenate([tags[:, 1:3] for tags in found], axis=1)[:, :num_words]
    misplaced = sum((tags[:, 0] - positions) * GOLDEN for tags in found)
    after: Array = (words + np.asarray(misplaced)[:, None]) & MASK
    return after


def last_slots(keys: PagedKeys[Array], num_nodes: int) -> Array:
    """Return the slot of the last position before each block, int64 [request]."""
    block_starts = keys.cache_seqlens.astype(np.int64) - num_nodes
    place = block_starts - 1
    page = keys.page_table[np.arange(len(place)), place // keys.page_size].astype(np.int64)
    slots: Array = page * keys.page_size + place % keys.page_size
    return slots
