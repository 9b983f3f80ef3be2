"""Faults in the prefix cache."""

from specsim.properties.mutants.record import edits_of

MUTANTS = edits_of(
    """
    @@ RadixCache
    OWN-1070 Parts of pages are cached.
    - tuple(key[: floor_to(len(key), self._page_size)]) => tuple(key)
    OWN-1071 The last unit of a key is left out.
    - floor_to(len(key), self._page_size) => floor_to(len(key[:-1]), self._page_size)
    OWN-1072 A match takes a piece as a whole that the key leaves inside.
    - child if num_shared == len(child.units) else child.split(num_shared, self._page_size) => child
    OWN-1073 Locks are not kept for the front of a piece that is cut.
      node.last_used = self._clock
    + node.num_locks = node.num_locks if node is child else 0
    OWN-1074 A match that ends inside a piece names the rest of it.
    - return node, tuple(slots) => return child if slots else node, tuple(slots)
    OWN-1075 A match does not count as a use.
    - node, slots = self._walk(self._whole_pages(key))
    + times = {one: one.last_used for one in self._root.descendants()}
    + node, slots = self._walk(self._whole_pages(key))
    + for one, time in times.items():
    +     one.last_used = time
    OWN-1076 An insertion does not count as a use.
    - node, _ = self._walk(whole)
    + times = {one: one.last_used for one in self._root.descendants()}
    + node, _ = self._walk(whole)
    + for one, time in times.items():
    +     one.last_used = time
    OWN-1077 A match uses the last piece of the text alone.
    - node, slots = self._walk(self._whole_pages(key))
    + times = {one: one.last_used for one in self._root.descendants()}
    + node, slots = self._walk(self._whole_pages(key))
    + for one in times.keys() - {node}:
    +     one.last_used = times[one]
    OWN-1078 An insertion says that all was cached before.
    - return num_cached => return len(whole)
    OWN-1079 An insertion says that nothing was cached before.
    - return num_cached => return 0
    OWN-1080 An insertion reports a page of duplicates too few.
    - return num_cached => return max(num_cached - self._page_size, 0)
    OWN-1081 An insertion reports a page of duplicates too many.
    - return num_cached => return min(num_cached + self._page_size, len(whole))
    OWN-1082 An insertion takes the slots of a text that is cached already.
    - return num_cached
    + place = 0
    + for passed, _ in self._passed(whole):
    +     self._slots.difference_update(passed.slots)
    +     passed.slots = tuple(slots[place : place + len(passed.units)])
    +     self._slots.update(passed.slots)
    +     place += len(passed.units)
    + return num_cached
    OWN-1083 A text that goes on where a cached one ends is not kept.
      num_cached = sum(num_shared for _, num_shared in self._passed(whole))
    + if num_cached and self._passed(whole)[-1][1] == len(self._passed(whole)[-1][0].units):
    +     return num_cached
    OWN-1084 A lock keeps the last piece alone.
    - for passed in self._own(node).path():
    -     passed.num_locks += 1
    + self._own(node).num_locks += 1
    OWN-1085 A lock keeps nothing.
    - for passed in self._own(node).path():
    -     passed.num_locks += 1
    ...
    - path = list(self._own(node).path()) => path = []
    OWN-1086 A lock is never taken off.
    - path = list(self._own(node).path()) => path = []
    OWN-1087 One unlock takes the locks of all requests off.
    - passed.num_locks -= 1 => passed.num_locks = 0
    OWN-1088 An unlock leaves the pieces above locked.
    - for passed in path:
    -     passed.num_locks -= 1
    + for passed in path[:1]:
    +     passed.num_locks -= 1
    OWN-1089 What was used last is forgotten first.
    - (node.last_used, next(order), node) => (-node.last_used, next(order), node)
    - (above.last_used, next(order), above) => (-above.last_used, next(order), above)
    OWN-1090 Locked texts are forgotten, too.
    - not node.children and not node.num_locks => not node.children
    - above is not self._root and not above.children and not above.num_locks
    + above is not self._root and not above.children
    OWN-1091 One leaf is forgotten, however much is needed.
    - len(given) < num_slots => len(given) < min(num_slots, 1)
    OWN-1092 A piece that has become a leaf is never forgotten.
    - above is not self._root and not above.children and not above.num_locks => False
    OWN-1093 No more slots come back than were asked for, although the leaf is gone.
    - return given => return given[:num_slots]
    OWN-1094 A page too few is forgotten.
    - len(given) < num_slots => len(given) < num_slots - self._page_size
    OWN-1095 A leaf more is forgotten than needed.
    - len(given) < num_slots => len(given) < num_slots + (num_slots > 0)
    OWN-1096 The cache still owns what it has given back.
    - self._slots.difference_update(given)
    OWN-1097 A match still finds what was given back.
    - del above.children[leaf.units[: self._page_size]]
    - leaf.parent = None
    + leaf.num_locks = 1
    OWN-1098 What was given back can be locked.
    - above is self._root => True
    OWN-1099 Locked slots count as evictable.
    - sum(len(node.slots) for node in self._root.descendants() if not node.num_locks) => self.num_cached
    OWN-1100 Leaves alone count as evictable.
    - sum(len(node.slots) for node in self._root.descendants() if not node.num_locks)
    + sum(len(node.slots) for node in self._root.descendants() if not node.num_locks and not node.children)
    OWN-1101 The slots of an insertion are not looked at.
    - self._check_slots(added)
    """
)
