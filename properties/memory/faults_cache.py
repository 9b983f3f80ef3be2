"""Faults in the prefix cache."""

from collections.abc import Callable, Sequence
from typing import Any

from specsim.properties.mutants.record import Mutant, overriding
from specsim.simulation.memory.protocols import Match

Method = Callable[..., Any]
Key = Sequence[Any]


def _whole_nodes(correct: Method, self: Any, key: Key) -> Any:
    """Take a piece as a whole although the key leaves it inside."""
    passed = self._passed(key)
    node, slots = correct(self, key)
    for child, num_shared in passed:
        if num_shared > len(child.units) or child.parent is node:
            return child, (*slots, *child.slots)
    return node, slots


def _locks_are_not_split(correct: Method, self: Any, key: Key) -> Any:
    """Leave the front of a piece unlocked when it is cut off."""
    before = {id(child) for child, _ in self._passed(key)}
    node, slots = correct(self, key)
    if slots and id(node) not in before:
        node.num_locks = 0
    return node, slots


def _ends_after(correct: Method, self: Any, key: Key) -> Any:
    """Return the node after the cut where a match ends inside a piece."""
    before = {id(child): child for child, _ in self._passed(key)}
    node, slots = correct(self, key)
    after = [child for child in before.values() if child.parent is node and slots]
    return (after[-1] if id(node) not in before and after else node), slots


def _without_using(correct: Method, self: Any, *arguments: Any) -> Any:
    """Leave the times of the last use as they are."""
    times = {id(node): node.last_used for node in self._root.descendants()}
    answer = correct(self, *arguments)
    for node in self._root.descendants():
        node.last_used = times.get(id(node), node.last_used)
    return answer


def _the_end_alone_is_used(correct: Method, self: Any, key: Key) -> Match:
    times = {id(node): node.last_used for node in self._root.descendants()}
    found: Match = correct(self, key)
    for node in self._root.descendants():
        if node is not found.node:
            node.last_used = times.get(id(node), node.last_used)
    return found


def _all_were_cached(correct: Method, self: Any, key: Key, slots: Any) -> int:
    correct(self, key, slots)
    return len(self._whole_pages(key))


def _none_was_cached(correct: Method, self: Any, key: Key, slots: Any) -> int:
    correct(self, key, slots)
    return 0


def _page_too_few(correct: Method, self: Any, key: Key, slots: Any) -> int:
    return max(int(correct(self, key, slots)) - int(self.page_size), 0)


def _page_too_many(correct: Method, self: Any, key: Key, slots: Any) -> int:
    return min(int(correct(self, key, slots)) + int(self.page_size), len(self._whole_pages(key)))


def _slots_are_replaced(correct: Method, self: Any, key: Key, slots: Any) -> int:
    """Point what is cached at the slots of the text that came last."""
    num_cached = int(correct(self, key, slots))
    place = 0
    for node, num_shared in self._passed(self._whole_pages(key)):
        fresh = tuple(slots[place : place + num_shared])
        place += num_shared
        self._slots.difference_update(node.slots[:num_shared])
        node.slots = (*fresh, *node.slots[num_shared:])
        self._slots.update(fresh)
    return num_cached


def _longer_texts_are_not_kept(correct: Method, self: Any, key: Key, slots: Any) -> int:
    """Keep nothing of a text that goes on where a cached one ends."""
    passed = self._passed(self._whole_pages(key))
    if passed and passed[-1][1] == len(passed[-1][0].units):
        return sum(num_shared for _, num_shared in passed)
    return int(correct(self, key, slots))


def _end_alone(change: int) -> Method:
    def fault(correct: Method, self: Any, node: Any) -> None:
        self._own(node)
        node.num_locks += change

    return fault


def _nothing(correct: Method, self: Any, *arguments: Any) -> None:
    return None


def _all_locks(correct: Method, self: Any, node: Any) -> None:
    correct(self, node)
    for passed in node.path():
        passed.num_locks = 0


def _end_alone_unlocked(correct: Method, self: Any, node: Any) -> None:
    correct(self, node)
    for passed in list(node.path())[1:]:
        passed.num_locks += 1


def _most_recent_first(correct: Method, self: Any, num_slots: int) -> Any:
    nodes = list(self._root.descendants())
    for node in nodes:
        node.last_used = -node.last_used
    try:
        return correct(self, num_slots)
    finally:
        for node in nodes:
            node.last_used = -node.last_used


def _locked_too(correct: Method, self: Any, num_slots: int) -> Any:
    locks = {node: node.num_locks for node in self._root.descendants()}
    for node in locks:
        node.num_locks = 0
    try:
        return correct(self, num_slots)
    finally:
        for node, count in locks.items():
            node.num_locks = count


def _one_leaf(correct: Method, self: Any, num_slots: int) -> Any:
    return correct(self, min(num_slots, 1))


def _parents_stay(correct: Method, self: Any, num_slots: int) -> Any:
    """Forget only what is a leaf at the start."""
    inner = [node for node in self._root.descendants() if node.children]
    for node in inner:
        node.num_locks += 1
    try:
        return correct(self, num_slots)
    finally:
        for node in inner:
            node.num_locks -= 1


def _no_more_than_asked(correct: Method, self: Any, num_slots: int) -> Any:
    return correct(self, num_slots)[:num_slots]


def _page_early(correct: Method, self: Any, num_slots: int) -> Any:
    return correct(self, max(num_slots - self.page_size, 0) if num_slots > 0 else num_slots)


def _leaf_more(correct: Method, self: Any, num_slots: int) -> Any:
    return correct(self, num_slots + 1 if num_slots > 0 else num_slots)


def _still_owned(correct: Method, self: Any, num_slots: int) -> Any:
    given = correct(self, num_slots)
    self._slots.update(given)
    return given


def _still_found(correct: Method, self: Any, leaf: Any) -> Any:
    """Leave an evicted text where matches find it."""
    above = leaf.parent
    correct(self, leaf)
    above.children[leaf.units[: self.page_size]] = leaf
    leaf.parent = above
    leaf.num_locks = 1
    return above


def _gone_is_found(correct: Method, self: Any, node: Any) -> Any:
    return node if hasattr(node, "path") else correct(self, node)


def _leaves_are_evictable(correct: Method, self: Any) -> int:
    return sum(len(node.slots) for node in self._root.descendants() if not node.num_locks and not node.children)


_ROWS: tuple[tuple[int, str, dict[str, Method]], ...] = (
    (0, "Parts of pages are cached.", {"_whole_pages": lambda correct, self, key: tuple(key)}),
    (1, "The last unit of a key is left out.", {"_whole_pages": lambda correct, self, key: correct(self, key[:-1])}),
    (2, "A match takes a piece as a whole that the key leaves inside.", {"_walk": _whole_nodes}),
    (3, "Locks are not kept for the front of a piece that is cut.", {"_walk": _locks_are_not_split}),
    (4, "A match that ends inside a piece names the rest of it.", {"_walk": _ends_after}),
    (5, "A match does not count as a use.", {"match": _without_using}),
    (6, "An insertion does not count as a use.", {"insert": _without_using}),
    (7, "A match uses the last piece of the text alone.", {"match": _the_end_alone_is_used}),
    (8, "An insertion says that all was cached before.", {"insert": _all_were_cached}),
    (9, "An insertion says that nothing was cached before.", {"insert": _none_was_cached}),
    (10, "An insertion reports a page of duplicates too few.", {"insert": _page_too_few}),
    (11, "An insertion reports a page of duplicates too many.", {"insert": _page_too_many}),
    (12, "An insertion takes the slots of a text that is cached already.", {"insert": _slots_are_replaced}),
    (13, "A text that goes on where a cached one ends is not kept.", {"insert": _longer_texts_are_not_kept}),
    (14, "A lock keeps the last piece alone.", {"lock": _end_alone(1)}),
    (15, "A lock keeps nothing.", {"lock": _nothing, "unlock": _nothing}),
    (16, "A lock is never taken off.", {"unlock": _nothing}),
    (17, "One unlock takes the locks of all requests off.", {"unlock": _all_locks}),
    (18, "An unlock leaves the pieces above locked.", {"unlock": _end_alone_unlocked}),
    (19, "What was used last is forgotten first.", {"evict": _most_recent_first}),
    (20, "Locked texts are forgotten, too.", {"evict": _locked_too}),
    (21, "One leaf is forgotten, however much is needed.", {"evict": _one_leaf}),
    (22, "A piece that has become a leaf is never forgotten.", {"evict": _parents_stay}),
    (23, "No more slots come back than were asked for, although the leaf is gone.", {"evict": _no_more_than_asked}),
    (24, "A page too few is forgotten.", {"evict": _page_early}),
    (25, "A leaf more is forgotten than needed.", {"evict": _leaf_more}),
    (26, "The cache still owns what it has given back.", {"evict": _still_owned}),
    (27, "A match still finds what was given back.", {"_forget": _still_found}),
    (28, "What was given back can be locked.", {"_own": _gone_is_found}),
    (29, "Locked slots count as evictable.", {"num_evictable": lambda correct, self: int(self.num_cached)}),
    (30, "Leaves alone count as evictable.", {"num_evictable": _leaves_are_evictable}),
    (31, "The slots of an insertion are not looked at.", {"_check_slots": lambda correct, self, slots: None}),
)

MUTANTS = tuple(
    Mutant(f"OWN-{1070 + number}", "RadixCache", summary, overriding(**faults)) for number, summary, faults in _ROWS
)
