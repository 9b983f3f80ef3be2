"""The prefix cache: a tree of texts that were resolved, in whole pages."""

import heapq
from collections.abc import Sequence
from itertools import count

from specsim.counts import floor_to
from specsim.rejection import Reason, SpecRejection, check_length, check_range
from specsim.simulation.memory.free_list import twice
from specsim.simulation.memory.protocols import KeyUnit, Match
from specsim.simulation.memory.radix_node import RadixNode


class RadixCache:
    """Slots by key units; what several texts begin with is kept once.

    Parameters
    ----------
    page_size : int
        Positions of a page; nothing shorter is matched, kept or forgotten.

    Notes
    -----
    Source: semantics I.7.
    """

    def __init__(self, page_size: int = 1) -> None:
        self._page_size = page_size
        self._root = RadixNode((), (), None)
        self._slots: set[int] = set()
        self._clock = 0

    @property
    def page_size(self) -> int:
        """Positions of a page."""
        return self._page_size

    @property
    def num_cached(self) -> int:
        """Slots that it owns."""
        return len(self._slots)

    @property
    def num_evictable(self) -> int:
        """Slots that no one has locked."""
        return sum(len(node.slots) for node in self._root.descendants() if not node.num_locks)

    @property
    def slots(self) -> frozenset[int]:
        """The slots that it owns."""
        return frozenset(self._slots)

    @property
    def root(self) -> RadixNode:
        """The node in front of all texts, for those who look at the whole tree."""
        return self._root

    def match(self, key: Sequence[KeyUnit]) -> Match:
        """Find the longest cached front of a key, in whole pages."""
        node, slots = self._walk(self._whole_pages(key))
        return Match(slots, node)

    def insert(self, key: Sequence[KeyUnit], slots: Sequence[int]) -> int:
        """Own the slots of a key from where the cached ones end, and return how many units were cached before."""
        check_length("slots to insert", len(slots), len(key), "each unit of the key has one")
        whole = self._whole_pages(key)
        num_cached = sum(num_shared for _, num_shared in self._passed(whole))
        added = tuple(slots[num_cached : len(whole)])
        self._check_slots(added)
        node, _ = self._walk(whole)
        if added:
            units = whole[num_cached:]
            node.children[units[: self._page_size]] = RadixNode(units, added, node, self._clock)
            self._slots.update(added)
        return num_cached

    def lock(self, node: object) -> None:
        """Keep a matched front, for one more request."""
        for passed in self._own(node).path():
            passed.num_locks += 1

    def unlock(self, node: object) -> None:
        """Stop keeping it for one of them."""
        path = list(self._own(node).path())
        if path:
            check_range(
                Reason.DOUBLE_FREE, "locks of a cached front", path[0].num_locks, "each lock is taken off once", 1
            )
        for passed in path:
            passed.num_locks -= 1

    def evict(self, num_slots: int) -> list[int]:
        """Forget unlocked leaves, the least recently used first, and return their slots."""
        check_range(Reason.COUNT_OUT_OF_RANGE, "slots to evict", num_slots, "what is given back was needed", 0)
        given: list[int] = []
        order = count()
        leaves = [
            (node.last_used, next(order), node)
            for node in self._root.descendants()
            if not node.children and not node.num_locks
        ]
        heapq.heapify(leaves)
        while leaves and len(given) < num_slots:
            _, _, leaf = heapq.heappop(leaves)
            given.extend(leaf.slots)
            above = self._forget(leaf)
            if above is not self._root and not above.children and not above.num_locks:
                heapq.heappush(leaves, (above.last_used, next(order), above))
        self._slots.difference_update(given)
        return given

    def _whole_pages(self, key: Sequence[KeyUnit]) -> tuple[KeyUnit, ...]:
        return tuple(key[: floor_to(len(key), self._page_size)])

    def _passed(self, key: tuple[KeyUnit, ...]) -> list[tuple[RadixNode, int]]:
        """Return the nodes that the cached front of a key passes, with the units that it has of each."""
        passed: list[tuple[RadixNode, int]] = []
        node, length = self._root, 0
        while child := node.children.get(key[length : length + self._page_size]):
            num_shared = child.num_shared(key[length:], self._page_size)
            passed.append((child, num_shared))
            if num_shared < len(child.units):
                break
            node, length = child, length + num_shared
        return passed

    def _walk(self, key: tuple[KeyUnit, ...]) -> tuple[RadixNode, tuple[int, ...]]:
        """Return the node at which the cached front of a key ends, split off where it ends inside one."""
        self._clock += 1
        node, slots = self._root, list[int]()
        for child, num_shared in self._passed(key):
            node = child if num_shared == len(child.units) else child.split(num_shared, self._page_size)
            node.last_used = self._clock
            slots.extend(node.slots)
        return node, tuple(slots)

    def _check_slots(self, slots: tuple[int, ...]) -> None:
        shared = sorted(self._slots.intersection(slots)) or twice(slots)
        if shared:
            expected, because = "slots that no other position has", "the cache would own them twice"
            raise SpecRejection(Reason.DUPLICATE_SLOT, "slots to insert", shared, expected, because)
        size = self._page_size
        for place, slot in enumerate(slots):
            if slot % size != place % size or slot // size != slots[floor_to(place, size)] // size:
                expected, because = f"place {place % size} of one page of {size}", "pages are kept as wholes"
                raise SpecRejection(Reason.INCONSISTENT_LENGTHS, f"slots to insert[{place}]", slot, expected, because)

    def _own(self, node: object) -> RadixNode:
        """Return a node of this tree; one that was evicted is none."""
        if isinstance(node, RadixNode):
            above = node
            while above.parent is not None:
                above = above.parent
            if above is self._root:
                return node
        raise SpecRejection(
            Reason.NODE_OUT_OF_RANGE,
            what="node of the prefix cache",
            got="gone" if isinstance(node, RadixNode) else node,
            expected="what a match returned",
            because="an evicted front is matched again before it is locked",
        )

    def _forget(self, leaf: RadixNode) -> RadixNode:
        above = leaf.parent if leaf.parent is not None else self._root
        del above.children[leaf.units[: self._page_size]]
        leaf.parent = None
        return above
