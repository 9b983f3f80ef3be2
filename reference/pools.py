"""Pools: moves of buffers that are not one row a slot, and of pools that have slots of their own."""

from collections.abc import Sequence

import numpy as np

from specsim.config import INDEXER_GROUP, INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.conformance.arrays import Array
from specsim.operations.outputs import TranslateMoveSlotsOutputs
from specsim.validation.checking import check_call


def move_indexer_cache(
    indexer_buffers: Sequence[Array], target_slots: Array, source_slots: Array, head_dim: int
) -> None:
    """Copy key and scale of slots in every indexer buffer, all read before any is written.

    Parameters
    ----------
    indexer_buffers : list of uint8 [page, 64*(head_dim+4*head_dim//128)]
        One buffer a layer, written in place; without pages where a layer has no indexer. A page holds the keys of 64
        slots one after the other, then their scales.
    target_slots : int64 [pair]
        Where each pair goes; only dump slot 0 may occur twice.
    source_slots : int64 [pair]
        Where each pair comes from.
    head_dim : int
        Bytes of a key, of which 128 share a scale of 4 bytes.

    Raises
    ------
    SpecRejection
        SCALAR_OUT_OF_RANGE, SLOT_OUT_OF_RANGE, DUPLICATE_SLOT.

    Notes
    -----
    Source: semantics C.6.
    """
    axes = check_call("move_indexer_cache", locals())
    key_bytes = axes["head_dim"]
    for buffer in indexer_buffers:
        if not len(buffer):
            continue
        read = []
        for slot in source_slots.tolist():
            key, scale = entry_of_slot(slot, key_bytes)
            page = buffer[slot // INDEXER_PAGE_KEYS]
            read.append((page[key].copy(), page[scale].copy()))
        for slot, (key_read, scale_read) in zip(target_slots.tolist(), read, strict=True):
            key, scale = entry_of_slot(slot, key_bytes)
            buffer[slot // INDEXER_PAGE_KEYS, key] = key_read
            buffer[slot // INDEXER_PAGE_KEYS, scale] = scale_read


def entry_of_slot(slot: int, key_bytes: int) -> tuple[slice, slice]:
    """Return the bytes of a slot's key and those of its scale, both inside of its page."""
    offset, scale_bytes = slot % INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES * key_bytes // INDEXER_GROUP
    key = offset * key_bytes
    scale = INDEXER_PAGE_KEYS * key_bytes + offset * scale_bytes
    return slice(key, key + key_bytes), slice(scale, scale + scale_bytes)


def translate_move_slots(
    target_slots: Array, source_slots: Array, full_to_swa: Array
) -> TranslateMoveSlotsOutputs[Array]:
    """Find the pairs of a move in the window's pool; slots without a counterpart are the dump there.

    Parameters
    ----------
    target_slots : int64 [pair]
        Where each pair goes in the full pool.
    source_slots : int64 [pair]
        Where each pair comes from there.
    full_to_swa : int64 or int32 [slot]
        The slot of the window's pool that goes with each slot of the full one; 0 where there is none.

    Returns
    -------
    swa_target_slots : int64 [pair]
        Where each pair goes in the window's pool; dump slot 0 for a pair that it does not hold.
    swa_source_slots : int64 [pair]
        Where each pair comes from there.

    Raises
    ------
    SpecRejection
        SLOT_OUT_OF_RANGE, DUPLICATE_SLOT; UNMAPPED_SLOT: one side of a pair has a counterpart and the other has none.

    Notes
    -----
    Source: semantics C.6.
    """
    axes = check_call("translate_move_slots", locals())
    swa_target_slots = np.zeros(axes["pair"], dtype=np.int64)
    swa_source_slots = np.zeros(axes["pair"], dtype=np.int64)
    for pair in range(axes["pair"]):
        swa_target_slots[pair] = full_to_swa[target_slots[pair]]
        swa_source_slots[pair] = full_to_swa[source_slots[pair]]
    return TranslateMoveSlotsOutputs(swa_target_slots, swa_source_slots)
