"""A prefix cache beside a plain dictionary from whole texts to slots."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from specsim.properties.laws.checks import refuses, require_same
from specsim.properties.memory.beside import require_all
from specsim.properties.memory.strategy import CacheHistory, Event
from specsim.rejection import Reason
from specsim.simulation.memory.protocols import KeyUnit, PrefixCache

Key = tuple[KeyUnit, ...]


class PlainTexts:
    """The slots of the last page of every cached front, and where the pieces end that come and go as wholes."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.pages: dict[Key, tuple[int, ...]] = {}
        self.last_used: dict[Key, int] = {}
        self.locks: Counter[Key] = Counter()
        self.time = 0

    def match(self, key: Key) -> Key:
        """Return the longest cached front; it becomes the end of a piece, and all pieces up to it are used."""
        self.time += 1
        front = max((one for one in self.fronts(key) if one in self.pages), key=len, default=())
        if front and front not in self.last_used:
            self.last_used[front] = self.time
        self._use(front)
        return front

    def insert(self, key: Key, slots: Sequence[int]) -> int:
        """Add a piece after the cached front, and return how long that is."""
        front = self.match(key)
        fronts = self.fronts(key)
        for one in fronts:
            self.pages.setdefault(one, tuple(slots[len(one) - self.page_size : len(one)]))
        if fronts:
            self.last_used[fronts[-1]] = self.time
        return len(front)

    def fronts(self, key: Key) -> list[Key]:
        """Return what a key begins with, in whole pages, the shortest first."""
        return [key[:end] for end in range(self.page_size, len(key) + 1, self.page_size)]

    def slots_of(self, front: Key) -> list[int]:
        """Return the slots of a cached front."""
        return [slot for one in self.fronts(front) for slot in self.pages[one]]

    def piece(self, end: Key) -> list[Key]:
        """Return the fronts of a piece, which begins where the one before it ends."""
        start = max((len(other) for other in self.last_used if other != end and end[: len(other)] == other), default=0)
        return [front for front in self.fronts(end) if len(front) > start]

    def is_locked(self, end: Key) -> bool:
        """Return whether somebody keeps a text that passes the end of a piece."""
        return any(count and locked[: len(end)] == end for locked, count in self.locks.items())

    @property
    def unlocked(self) -> list[Key]:
        """Pieces that no one keeps."""
        return [end for end in self.last_used if not self.is_locked(end)]

    def evict(self, num_slots: int) -> list[int]:
        """Remove unlocked pieces that no other continues, those that were used longest ago first."""
        given: list[int] = []
        while len(given) < num_slots:
            leaves = [
                end
                for end in self.unlocked
                if not any(other != end and other[: len(end)] == end for other in self.last_used)
            ]
            if not leaves:
                break
            oldest = min(leaves, key=self.last_used.__getitem__)
            given += [slot for front in self.piece(oldest) for slot in self.pages.pop(front)]
            del self.last_used[oldest]
        return given

    def _use(self, front: Key) -> None:
        for end in self.last_used:
            if front[: len(end)] == end:
                self.last_used[end] = self.time


class CachePlay:
    """A prefix cache, the dictionary beside it, and matches that were found and may be locked."""

    def __init__(self, cache: PrefixCache, history: CacheHistory) -> None:
        self.cache = cache
        self.plain = PlainTexts(history.page_size)
        self.size = history.page_size
        self.keys: list[Key] = [
            tuple(pairwise(text)) if history.has_pair_keys else tuple(text) for text in history.texts
        ]
        self.found: list[tuple[Key, object]] = []
        self.gone: set[int] = set()
        self.unused_pages = list(range(1, 400))

    def end(self) -> None:
        """Forget all, piece by piece.

        Half of what was ever found is kept, and every text used once more, until the rest is gone, so that pieces meet
        that were not leaves together.
        """
        for place, (front, node) in enumerate(self.found):
            if place % 2 and front and place not in self.gone:
                self.cache.lock(node)
                self.plain.locks[front] += 1
        for key in self.keys:
            self.match(key)
        self.compare("with half of it locked")
        self.forget()
        for _ in range(self.plain.locks.total()):
            self.unlock(0)
        self.compare("when all is unlocked")
        self.forget()
        require_same("num_cached when nothing is kept", self.cache.num_cached, 0)

    def forget(self) -> None:
        """Forget one piece after the other until nothing comes back."""
        num_cached = -1
        while num_cached != len(self.plain.pages):
            num_cached = len(self.plain.pages)
            self.evict(1)

    def happen(self, event: Event) -> None:
        """Do what an event says."""
        first, second = event.counts[:2]
        key = self.keys[first % len(self.keys)]
        match event.what:
            case "match":
                self.match(key)
            case "insert":
                self.insert(key, second)
            case "lock":
                self.lock(key, second)
            case "unlock":
                self.unlock(first)
            case "evict":
                self.evict(first)
            case _:
                self.refused(key)

    def match(self, key: Key) -> None:
        """Match a key; what is found is that of the dictionary."""
        front = self.plain.match(key)
        got = self.cache.match(key)
        require_same("matched slots", got.slots, tuple(self.plain.slots_of(front)))
        self.found.append((front, got.node))

    def insert(self, key: Key, num_reused: int) -> None:
        """Insert a key whose first pages were matched before, and whose others somebody has filled."""
        known = [slot for front in self.plain.fronts(key) for slot in self.plain.pages.get(front, ())]
        reused = known[: num_reused * self.size]
        num_pages = -(-(len(key) - len(reused)) // self.size)
        pages, self.unused_pages = self.unused_pages[:num_pages], self.unused_pages[num_pages:]
        filled = [page * self.size + place for page in pages for place in range(self.size)]
        slots = [*reused, *filled][: len(key)]
        require_same("units that were cached before", self.cache.insert(key, slots), self.plain.insert(key, slots))

    def lock(self, key: Key, place: int) -> None:
        """Match and lock a key, or lock what was found before; what is gone cannot be locked."""
        if place % 3 or not self.found:
            self.match(key)
            place = len(self.found) - 1
        place %= len(self.found)
        front, node = self.found[place]
        if place in self.gone:
            refuses(Reason.NODE_OUT_OF_RANGE, partial(self.cache.lock, node))
            return
        self.cache.lock(node)
        self.plain.locks[front] += 1

    def unlock(self, place: int) -> None:
        """Take a lock off, if there is one."""
        locked = sorted((front for front, count in self.plain.locks.items() if count), key=len)
        if locked:
            front = locked[place % len(locked)]
            places = [place for place, one in enumerate(self.found) if one[0] == front and place not in self.gone]
            self.plain.locks[front] -= 1
            self.cache.unlock(self.found[places[-1]][1])
            return
        for place, (front, node) in enumerate(self.found):
            if front and place not in self.gone:
                refuses(Reason.DOUBLE_FREE, partial(self.cache.unlock, node))

    def evict(self, count: int) -> None:
        """Evict; the slots that come back are those of the dictionary, in their order, and are filled again."""
        expected = self.plain.evict(count)
        got = self.cache.evict(count)
        require_same("evicted slots", got, expected)
        self.gone |= {place for place, (front, _) in enumerate(self.found) if front and front not in self.plain.pages}
        self.unused_pages = [*dict.fromkeys(slot // self.size for slot in got), *self.unused_pages]

    def refused(self, key: Key) -> None:
        """Make the calls that have to be refused."""
        whole = len(key) // self.size * self.size
        fresh = list(range(4000 * self.size, 4000 * self.size + len(key)))
        refuses(Reason.COUNT_OUT_OF_RANGE, partial(self.cache.evict, -1))
        refuses(Reason.NODE_OUT_OF_RANGE, partial(self.cache.lock, None))
        refuses(Reason.INCONSISTENT_LENGTHS, partial(self.cache.insert, key, [*fresh, 1]))
        if not whole or key[:whole] in self.plain.pages:
            return
        cached = sorted(slot for page in self.plain.pages.values() for slot in page)
        if cached and self.size == 1:
            refuses(Reason.DUPLICATE_SLOT, partial(self.cache.insert, key, [*fresh[:-1], cached[-1]]))
        if whole == len(key) and self.size > 1:
            last = [*fresh[:-1], fresh[-1] + self.size]
            refuses(Reason.INCONSISTENT_LENGTHS, partial(self.cache.insert, key, last))

    def compare(self, when: str) -> None:
        """Raise AssertionError unless both have the same."""
        require_all(self.seen(), when)

    def seen(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield what the dictionary has of the cache."""
        plain = self.plain
        slots = sorted(slot for page in plain.pages.values() for slot in page)
        yield "page_size", self.cache.page_size, self.size
        yield "num_cached", self.cache.num_cached, len(slots)
        yield "num_evictable", self.cache.num_evictable, self.size * sum(map(len, map(plain.piece, plain.unlocked)))
        yield "slots", sorted(self.cache.slots), slots
