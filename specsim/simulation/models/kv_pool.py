"""The KV of one side behind a door: who writes says which slots, so that what was read of the others stays known.

A reader asks for one word a slot, and the entries of those slots alone are read that were written since it asked last.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from specsim.assertion import require
from specsim.conformance.arrays import Array

FULL_SHARE = 0.1
"""Share of the iterations that read everything, where that is drawn."""


class Reads(StrEnum):
    """How much of the pools the forwards of a model read that can keep what it has read."""

    FULL = "every entry that a token sees, in every forward"
    KEPT = "entries that were written since they were read last"
    DRAWN = "as kept, but in a drawn share of the iterations everything, and what is kept is compared with it"


Words = NDArray[np.int64]
Summarise = Callable[[Array], Words]
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
    """The buffers [slot, *row_shape] of one side, one array a layer by the name of a component: what a forward takes.

    Parameters
    ----------
    buffers : mapping
        The buffers.
    num_slots : int
        Slots of each.
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
    ) -> None:
        super().__init__(buffers)
        self.is_kept = is_watched
        """Whether a forward may rely on what is known, in the iteration that runs."""
        self._num_slots = num_slots
        self._is_watched = is_watched
        self._door = door
        self._versions: Words = np.zeros(num_slots, dtype=np.int64)
        self._known: dict[tuple[str, int], Known] = {}

    def layers(self) -> list[Array]:
        """Return every buffer, layer by layer."""
        most_layers = max((len(column) for column in self.values()), default=0)
        return [column[layer] for layer in range(most_layers) for column in self.values() if layer < len(column)]

    def open(self, slots: Array) -> "KVPool":
        """Return the buffers for a forward that writes these slots."""
        if self._is_watched:
            self._door(self._versions, slots)
        return self

    @contextmanager
    def writing(self) -> Iterator[list[Array]]:
        """Hand out every buffer, layer by layer; slots in which an entry differs afterwards were written."""
        buffers = self.layers()
        before = [buffer.copy() for buffer in buffers] if self._is_watched else []
        try:
            yield buffers
        finally:
            is_written = np.zeros(self._num_slots, dtype=np.bool_)
            for buffer, entries in zip(buffers, before, strict=False):
                is_written |= (buffer != entries).reshape(self._num_slots, -1).any(axis=1)
            if self._is_watched:
                self._door(self._versions, np.flatnonzero(is_written))

    def words(self, name: str, layer: int, summarise: Summarise) -> Words:
        """Return one word a slot of a buffer, int64 [slot]: what ``summarise`` makes of its entries [slot, *row_shape].

        The array is this pool's own, and changes with the next call.
        """
        if (name, layer) not in self._known:
            shape = (self._num_slots,)
            self._known[name, layer] = Known(summarise, np.zeros(shape, np.int64), np.full(shape, -1, np.int64))
        known = self._known[name, layer]
        stale = np.flatnonzero(known.versions != self._versions)
        if len(stale):
            known.words[stale] = summarise(self[name][layer][stale])
            known.versions[stale] = self._versions[stale]
        return known.words

    def check(self) -> None:
        """Raise AssertionError where something is known that is no longer so."""
        for (name, layer), known in self._known.items():
            current = np.flatnonzero(known.versions == self._versions)
            differs = known.words[current] != known.summarise(self[name][layer][current])
            for slot in current[differs][:1].tolist():
                what = f"{name}[{layer}][{slot}]"
                require(False, what, "written past the door", "as it was read last")
