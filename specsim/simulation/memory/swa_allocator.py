"""Slots of two pools at once: one of the layers that see everything, one of those that see a sliding window."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from specsim.rejection import Reason, SpecRejection, check_length, contradiction
from specsim.simulation.memory.free_list import double_free
from specsim.simulation.memory.protocols import Allocator, Snapshot, SwaSnapshot

UNMAPPED = 0
"""What the map says of a full slot that has no SWA slot: the dump of that pool."""


class SwaAllocator:
    """Full slots as another allocator hands them out, each with an SWA slot of its own until a window has passed it.

    A page of full slots has one page of SWA slots, place by place, or none. Both are taken together or not at all, and
    given back together; what lies before every window gives back its SWA slots alone.

    Parameters
    ----------
    full, swa : Allocator
        Who hands out the slots of each pool, by pages of one size.

    Raises
    ------
    SpecRejection
        BAD_CONFIGURATION: pages of two sizes.

    Notes
    -----
    Source: semantics C.6, I.6, I.10.
    """

    def __init__(self, full: Allocator, swa: Allocator) -> None:
        if full.page_size != swa.page_size:
            because = "a page of one pool stands for a page of the other"
            raise contradiction("page_size of the SWA pool", swa.page_size, str(full.page_size), because)
        self._full = full
        self._swa = swa
        self._map: NDArray[np.int64] = np.zeros(full.num_slots, dtype=np.int64)

    @property
    def page_size(self) -> int:
        """Slots of a page, in both pools."""
        return self._full.page_size

    @property
    def num_slots(self) -> int:
        """Full slots, those of page 0 included."""
        return self._full.num_slots

    @property
    def num_free(self) -> int:
        """Slots that can be handed out now: as many as both pools have."""
        return min(self._full.num_free, self._swa.num_free)

    @property
    def free_pages(self) -> tuple[int, ...]:
        """Free full pages, in the order in which they are handed out."""
        return self._full.free_pages

    @property
    def owned_pages(self) -> frozenset[int]:
        """Full pages that somebody has."""
        return self._full.owned_pages

    @property
    def freed_in_group(self) -> tuple[int, ...]:
        """Full slots that the open group has collected."""
        return self._full.freed_in_group

    @property
    def full(self) -> Allocator:
        """Who hands out full slots."""
        return self._full

    @property
    def swa(self) -> Allocator:
        """Who hands out SWA slots."""
        return self._swa

    @property
    def full_to_swa(self) -> NDArray[np.int64]:
        """The SWA slot of each full slot, int64 [slot], 0 for none; a copy."""
        return self._map.copy()

    def swa_slots(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Return the SWA slot of each full slot, 0 for none."""
        return tuple(self._map[list(slots)].tolist())

    def allocate(self, count: int) -> list[int]:
        """Hand out whole pages of both pools."""
        before = self._full.backup()
        slots = self._full.allocate(count)
        self._give(slots[:: self.page_size], before)
        return slots

    def extend(self, prefixes: Sequence[int], ends: Sequence[int], last_slots: Sequence[int]) -> list[list[int]]:
        """Hand out the slots of positions ``prefix`` to ``end−1`` of each request: those of its last page first.

        Raises
        ------
        SpecRejection
            UNMAPPED_SLOT: a last page that is to be filled has no SWA slots any more.
        """
        size = self.page_size
        filled = [last for last in last_slots if (last + 1) % size]
        before = self._full.backup()
        given = self._full.extend(prefixes, ends, last_slots)
        gone = [last for last in filled if not self._map[last]]
        if gone:
            self._full.restore(before)
            raise unmapped("last slots", gone, "what is filled is still inside of a window")
        self._give([slot for slots in given for slot in slots if slot % size == 0], before)
        return given

    def free(self, slots: Iterable[int]) -> None:
        """Take full slots back, and the SWA slots that they have; in an open group, at its end."""
        returned = list(slots)
        self._full.free(returned)
        self._take([slot for slot in returned if self._map[slot]])

    def evict(self, slots: Sequence[int]) -> None:
        """Take back the SWA slots of whole pages that no window reaches any more; their full slots keep their owner."""
        self._check_pages(slots)
        gone = [slot for slot in slots if not 0 < slot < len(self._map) or not self._map[slot]]
        if gone or len(set(slots)) < len(slots):
            raise double_free("SWA slot of slot", gone or sorted(slots))
        self._take(slots)

    def hand_over(self, slots: Sequence[int], to: Sequence[int]) -> None:
        """Give the SWA slots of some full pages to others that hold the same text and have none."""
        for named in (slots, to):
            self._check_pages(named)
        check_length("slots that get an SWA slot", len(to), len(slots), "each gives to one")
        gone = [slot for slot in slots if not self._map[slot]]
        if gone:
            raise unmapped("slots that give an SWA slot", gone, "they have none to give")
        taken = [slot for slot in to if self._map[slot]]
        if taken:
            expected, because = "slots without one", "what they have would be lost"
            raise SpecRejection(Reason.DUPLICATE_SLOT, "slots that get an SWA slot", taken, expected, because)
        self._map[list(to)] = self._map[list(slots)]
        self._map[list(slots)] = UNMAPPED

    def begin_free_group(self) -> None:
        """Collect frees of both pools from here on."""
        self._full.begin_free_group()
        self._swa.begin_free_group()

    def end_free_group(self) -> None:
        """Free what was collected, in one go."""
        self._full.end_free_group()
        self._swa.end_free_group()

    def backup(self) -> Snapshot:
        """Return who owns what in both pools, for ``restore``."""
        return replace(self._full.backup(), swa=SwaSnapshot(self._swa.backup(), tuple(self._map.tolist())))

    def restore(self, before: Snapshot) -> None:
        """Take back what was handed out since a backup, in both pools, as if it had never been.

        Raises
        ------
        SpecRejection
            UNMAPPED_SLOT: the backup is one of full slots alone.
        """
        if before.swa is None:
            raise unmapped("backup", "full slots", "SWA slots were handed out since, too")
        freed = sorted(before.swa.pages.owned - self._swa.backup().owned)
        if freed:
            raise double_free("SWA page", freed)
        self._full.restore(replace(before, swa=None))
        self._swa.restore(before.swa.pages)
        self._map[:] = before.swa.full_to_swa

    def _give(self, firsts: Sequence[int], before: Snapshot) -> None:
        """Map pages that were handed out, by their first slots; where SWA pages run out, nothing was handed out."""
        size = self.page_size
        try:
            swa_slots = self._swa.allocate(len(firsts) * size)
        except SpecRejection:
            self._full.restore(before)
            raise
        self._map[[first + place for first in firsts for place in range(size)]] = swa_slots

    def _take(self, slots: Sequence[int]) -> None:
        """Take back the SWA slots of mapped slots, and clear the map of their pages."""
        size = self.page_size
        self._swa.free(self._map[list(slots)].tolist())
        pages = {slot // size for slot in slots}
        self._map[[page * size + place for page in pages for place in range(size)]] = UNMAPPED

    def _check_pages(self, slots: Sequence[int]) -> None:
        size = self.page_size
        whole = {slot // size * size + place for slot in slots for place in range(size)}
        if whole != set(slots):
            expected, because = f"whole pages of {size}", "a page has its SWA slots as a whole"
            raise SpecRejection(Reason.NOT_DIVISIBLE, "slots of SWA pages", sorted(slots), expected, because)


def unmapped(what: str, got: object, because: str) -> SpecRejection:
    """Return the refusal to use slots without an SWA slot."""
    return SpecRejection(Reason.UNMAPPED_SLOT, what, got, "slots with an SWA slot", because)
