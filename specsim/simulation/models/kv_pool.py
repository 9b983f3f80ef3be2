"""The KV of one side, written by slot through one class, so that what was read of the other slots stays known.

A reader asks for one word a slot, and the entries of those slots alone are read that were written since it asked last.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require
from specsim.config import INDEXER_GROUP, INDEXER_PAGE_KEYS, INDEXER_SCALE_BYTES
from specsim.conformance.arrays import Array
from specsim.simulation.models.description import Layout
from specsim.simulation.models.moving import layer_by_layer

FULL_SHARE = 0.1
"""Share of the iterations that read everything, where that is drawn."""


class Reads(StrEnum):
    """How much of the pools the forwards of a model read that can keep what it has read."""

    FULL = "every entry that a token sees, in every forward"
    KEPT = "entries that were written since they were read last"
    DRAWN = "as kept, but in a drawn share of the iterations everything, and what is kept is compared with it"


Words = NDArray[np.int64]
Summarise = Callable[[Words], Words]
"""From slots to one word each, made of what lies in them."""

Door = Callable[[Words, Array], None]


def raise_versions(versions: Words, slots: Array) -> None:
    """Count a write of each of these slots: the door that every write goes through."""
    versions[slots] += 1


@dataclass(frozen=True)
class Known:
    """One word a slot, and the version of the entry that it was made of, -1 before the first."""

    summarise: Summarise
    words: Words
    versions: Words


class KVPool(dict[str, Sequence[Array]]):
    """The buffers of one side, one array a layer by the name of a component: what a forward takes.

    Parameters
    ----------
    buffers : mapping
        The buffers.
    num_slots : int
        Slots of each.
    layouts : mapping
        How components are addressed by slot; those that are missing have a row a slot.
    is_watched : bool
        Whether writes are counted; without it, everything is read again and again.
    door : callable
        Counts a write of slots; a door that misses some is a fault.
    """

    def __init__(
        self,
        buffers: Mapping[str, Sequence[Array]],
        num_slots: int,
        is_watched: bool = False,
        door: Door = raise_versions,
        layouts: Mapping[str, Layout] | None = None,
    ) -> None:
        super().__init__(buffers)
        self.is_kept = is_watched
        """Whether a forward may rely on what is known, in the iteration that runs."""
        self._num_slots = num_slots
        self._is_watched = is_watched
        self._door = door
        self._versions: Words = np.zeros(num_slots, dtype=np.int64)
        self._known: dict[Hashable, Known] = {}
        self._layouts = dict(layouts or {})

    def layers(self) -> list[Array]:
        """Return every buffer, layer by layer."""
        return layer_by_layer(self)

    def open(self, slots: Array) -> "KVPool":
        """Return the buffers for a forward that writes these slots."""
        if self._is_watched:
            self._door(self._versions, slots)
        return self

    @contextmanager
    def writing(self) -> Iterator[list[Array]]:
        """Hand out every buffer, layer by layer; slots in which an entry differs afterwards were written."""
        if not self._is_watched:
            yield self.layers()
            return
        before = [(name, layer, layer.copy()) for name, column in self.items() for layer in column]
        try:
            yield self.layers()
        finally:
            is_written: Array = np.zeros(self._num_slots, dtype=np.bool_)
            for name, layer, entries in before:
                layout = self._layouts.get(name, Layout.SLOTS)
                is_written |= _slots_that_differ(entries, layer, layout)[: self._num_slots]
            self._door(self._versions, np.flatnonzero(is_written))

    def words(self, key: Hashable, summarise: Summarise) -> Words:
        """Return one word a slot, int64 [slot]: what ``summarise`` makes of the slots.

        The array is this pool's own, and changes with the next call. What is known under a key stays so until a slot
        is written; ``summarise`` is then asked about that slot again.
        """
        if key not in self._known:
            shape = (self._num_slots,)
            self._known[key] = Known(summarise, np.zeros(shape, np.int64), np.full(shape, -1, np.int64))
        known = self._known[key]
        stale = np.flatnonzero(known.versions != self._versions)
        if len(stale):
            known.words[stale] = summarise(stale)
            known.versions[stale] = self._versions[stale]
        return known.words

    def check(self) -> None:
        """Raise AssertionError where something is known that is no longer so."""
        for key, known in self._known.items():
            current = np.flatnonzero(known.versions == self._versions)
            differs = known.words[current] != known.summarise(current)
            for slot in current[differs][:1].tolist():
                require(False, f"{key}[{slot}]", "written past the door", "as it was read last")


def _slots_that_differ(one: Array, other: Array, layout: Layout) -> Array:
    """Return bool [slot]: which slots hold another entry in two buffers; an unknown layout says it of all or none."""
    differs = (one != other).reshape(len(one), -1)
    if layout is Layout.UNKNOWN:
        return np.full(len(one), differs.any(), dtype=np.bool_)
    if layout is Layout.SLOTS:
        rows: Array = np.any(differs, axis=1)
        return rows
    num_groups = differs.shape[1] // (INDEXER_PAGE_KEYS * (INDEXER_GROUP + INDEXER_SCALE_BYTES))
    keys, scales = np.split(differs, [INDEXER_PAGE_KEYS * num_groups * INDEXER_GROUP], axis=1)
    of_keys = np.any(keys.reshape(-1, num_groups * INDEXER_GROUP), axis=1)
    of_scales = np.any(scales.reshape(-1, num_groups * INDEXER_SCALE_BYTES), axis=1)
    slots: Array = np.logical_or(of_keys, of_scales)
    return slots
