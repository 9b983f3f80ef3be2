"""The toy draft that drafts a block at once, on the device: what its entries hold, and how they are read."""

import torch
from torch import Tensor

from specsim.gpu.models.stored import KV, digest, unpacked, write_back
from specsim.hashing import GOLDEN, MASK
from specsim.simulation.models.batches import PagedKeys
from specsim.simulation.models.block import FeatureBatch
from specsim.simulation.models.block_room import WORDS_OF_A_LAYER, require_room
from specsim.simulation.models.pool_kinds import PoolKind


def store_features(kind: PoolKind, kv: KV, batch: FeatureBatch[Tensor], num_words: int) -> None:
    """Write K and V of every layer: position, two words of the features, component; as the reference does.

    The ``num_words`` words of the features are kept as they are; one word digests them.
    """
    tags, slots = unpacked(kind, kv), batch.out_cache_loc
    num_free = WORDS_OF_A_LAYER * (len(tags) // 2)
    require_room(num_words, len(tags) // 2)
    kept = [*batch.features[:, :num_words].unbind(1), digest(batch.features.unbind(1))]
    nothing = torch.zeros_like(batch.positions)
    words = [*kept, *[nothing] * num_free][:num_free]
    for component, buffer in enumerate(tags):
        own = words[2 * component : 2 * component + 2]
        buffer[slots] = torch.stack([batch.positions, *own, torch.full_like(nothing, component)], dim=1)
    write_back(kind, kv, tags, slots)


def features_after(kind: PoolKind, kv: KV, slots: Tensor, positions: Tensor, num_words: int) -> Tensor:
    """Return the features that entries hold, int64 [request, hidden], spoilt where they lie elsewhere."""
    found = [tags.index_select(0, slots) for tags in unpacked(kind, kv)]
    words = torch.cat([tags[:, 1:3] for tags in found], dim=1)[:, :num_words]
    misplaced = torch.stack([(tags[:, 0] - positions) * GOLDEN for tags in found]).sum(dim=0)
    return (words + misplaced[:, None]) & MASK


def last_slots(keys: PagedKeys[Tensor], num_nodes: int) -> Tensor:
    """Return the slot of the last position before each block, int64 [request]."""
    block_starts = keys.cache_seqlens.long() - num_nodes
    place = block_starts - 1
    page = keys.page_table.gather(1, (place // keys.page_size)[:, None]).squeeze(1).long()
    return page * keys.page_size + place % keys.page_size
