"""What an engine asks of its memory: slots, rows and a cache of prefixes. A user's own may take the place of ours.

Slots are counted and freed one by one and owned by pages: page ``i`` holds the slots ``i·page_size`` to
``(i+1)·page_size − 1``, and with page size 1 a page is a slot. Page 0 is the dump, row 0 the padding row; neither is
ever given out. All numbers are plain integers on the host.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

KeyUnit = int | tuple[int, ...]
"""What a position is cached under: its token, or its token and the next one where the draft cache is shifted."""


@dataclass(frozen=True)
class Snapshot:
    """Who owned what: free pages in the order in which they are handed out, freed ones of an open group, owned ones.

    ``group`` is None where no group is open, ``swa`` where there is one pool.
    """

    free: tuple[int, ...]
    group: tuple[int, ...] | None
    owned: frozenset[int]
    swa: "SwaSnapshot | None" = None


@dataclass(frozen=True)
class SwaSnapshot:
    """Who owned what of the SWA pool, and the SWA slot of each full slot."""

    pages: Snapshot
    full_to_swa: tuple[int, ...]


class Allocator(Protocol):
    """Hands out the slots of a pool and takes them back."""

    @property
    def page_size(self) -> int:
        """Slots of a page."""

    @property
    def num_slots(self) -> int:
        """Slots of the pool, those of page 0 included."""

    @property
    def num_free(self) -> int:
        """Slots that can be handed out now; those freed in an open group cannot."""

    @property
    def free_pages(self) -> tuple[int, ...]:
        """Free pages, in the order in which they are handed out."""

    @property
    def owned_pages(self) -> frozenset[int]:
        """Pages that were handed out and not taken back; without those freed in an open group."""

    @property
    def freed_in_group(self) -> tuple[int, ...]:
        """Slots that the open group has collected, in the order of the calls; empty without a group."""

    def allocate(self, count: int) -> list[int]:
        """Hand out whole pages from the front of the free list.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: a negative count; NOT_DIVISIBLE: no multiple of the page size; OUT_OF_SLOTS: fewer are
            free. Nothing was handed out.
        """

    def extend(self, prefixes: Sequence[int], ends: Sequence[int], last_slots: Sequence[int]) -> list[list[int]]:
        """Hand out the slots of positions ``prefix`` to ``end−1`` of each request, in batch order.

        Parameters
        ----------
        prefixes, ends : sequence of int
            Positions that each request has, and those that it will have.
        last_slots : sequence of int
            Slot of position ``prefix−1``, or -1 where ``prefix`` is 0. Its page is filled first.

        Raises
        ------
        SpecRejection
            INCONSISTENT_LENGTHS: lists of different lengths, or a slot whose place in its page is not that of its
            position; COUNT_OUT_OF_RANGE: an end before its prefix; DOUBLE_FREE: a last slot that no one owns;
            DUPLICATE_SLOT: two requests fill one page; OUT_OF_SLOTS. Nothing was handed out.
        """

    def free(self, slots: Iterable[int]) -> None:
        """Take slots back, and with each the page that it lies in; in an open group, at its end.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: a slot is named twice, or lies in a page that no one owns; nothing was taken back.
        """

    def begin_free_group(self) -> None:
        """Collect frees from here on; none of them is available before the group ends.

        Raises
        ------
        SpecRejection
            OPEN_FREE_GROUP: a group is open already.
        """

    def end_free_group(self) -> None:
        """Free what was collected, in one go; a page that several calls named is freed once.

        Raises
        ------
        SpecRejection
            OPEN_FREE_GROUP: no group is open.
        """

    def backup(self) -> Snapshot:
        """Return who owns what, for ``restore``."""

    def restore(self, before: Snapshot) -> None:
        """Take back what was handed out since a backup, as if it had never been.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: something was freed since, and would get its old owner back.
        """


class SwaSlots(Allocator, Protocol):
    """Hands out full slots, each with an SWA slot for as long as a window may reach it.

    ``num_free`` counts what both pools can give; pages, owners and groups are those of full slots.
    """

    @property
    def full(self) -> Allocator:
        """Who hands out full slots; read alone."""

    @property
    def swa(self) -> Allocator:
        """Who hands out SWA slots; read alone."""

    def swa_slots(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Return the SWA slot of each full slot, 0 for none."""

    def evict(self, slots: Sequence[int]) -> None:
        """Take back the SWA slots of whole pages that no window reaches any more; their full slots keep their owner.

        Raises
        ------
        SpecRejection
            NOT_DIVISIBLE: a page is named in part; DOUBLE_FREE: a slot is named twice, or has no SWA slot. Nothing was
            taken back.
        """

    def hand_over(self, slots: Sequence[int], to: Sequence[int]) -> None:
        """Give the SWA slots of some full pages to others that hold the same text and have none.

        Raises
        ------
        SpecRejection
            INCONSISTENT_LENGTHS: not one slot for each; NOT_DIVISIBLE: a page is named in part; UNMAPPED_SLOT: there is
            nothing to give; DUPLICATE_SLOT: who would get one has one. Nothing was changed.
        """


class Rows(Protocol):
    """Hands out rows of the request-to-token map."""

    @property
    def num_free(self) -> int:
        """Rows that can be handed out."""

    @property
    def owned(self) -> frozenset[int]:
        """Rows that a request has."""

    def allocate(self, count: int) -> list[int]:
        """Hand out rows from the front of the free list.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: a negative count; OUT_OF_SLOTS: fewer are free. Nothing was handed out.
        """

    def free(self, rows: Iterable[int]) -> None:
        """Take rows back, after those that are free.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: a row is named twice, or no one has it; nothing was taken back.
        """


@dataclass(frozen=True)
class Match:
    """The cached front of a key.

    Parameters
    ----------
    slots : tuple of int
        Slots of its positions; their number is a multiple of the page size.
    node : object
        Where it ends, for ``lock`` and ``unlock``; only the cache can read it.
    """

    slots: tuple[int, ...]
    node: object


class PrefixCache(Protocol):
    """Keeps the slots of texts that were resolved, by key units."""

    @property
    def page_size(self) -> int:
        """Positions of a page; nothing shorter is cached."""

    @property
    def num_cached(self) -> int:
        """Slots that it owns."""

    @property
    def num_evictable(self) -> int:
        """Slots that are not locked: as many as it could give back."""

    @property
    def slots(self) -> frozenset[int]:
        """The slots that it owns."""

    def match(self, key: Sequence[KeyUnit]) -> Match:
        """Find the longest cached front of a key, in whole pages; it counts as used."""

    def insert(self, key: Sequence[KeyUnit], slots: Sequence[int]) -> int:
        """Own the slots of a key from where the cached ones end, and return how many units were cached before.

        The units after the last whole page of the key stay with the caller, and so do the slots of those that were
        cached before: they are duplicates. What is passed counts as used.

        Raises
        ------
        SpecRejection
            INCONSISTENT_LENGTHS: not one slot a unit; DUPLICATE_SLOT: a slot that it owns already, or that is named
            twice. Nothing was inserted.
        """

    def lock(self, node: object) -> None:
        """Keep a matched front, for one more request."""

    def unlock(self, node: object) -> None:
        """Stop keeping it for one of them.

        Raises
        ------
        SpecRejection
            DOUBLE_FREE: no one has locked it.
        """

    def evict(self, count: int) -> list[int]:
        """Forget unlocked leaves, the least recently used first, until so many slots are given back or none is left.

        A leaf goes as a whole, so that more may come back; the caller frees them.

        Raises
        ------
        SpecRejection
            COUNT_OUT_OF_RANGE: a negative count.
        """
