"""One edge of the prefix tree: some whole pages of a key, and the slots that hold them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from specsim.counts import floor_to
from specsim.simulation.memory.protocols import KeyUnit

Units = tuple[KeyUnit, ...]


@dataclass(eq=False)
class RadixNode:
    """Units of a key after those of the parent.

    Parameters
    ----------
    units, slots : tuple
        The units and a slot for each; empty at the root alone.
    parent : RadixNode or None
        None at the root, and at a leaf that was evicted.
    last_used : int
        Time of the last match or insertion that passed it.
    num_locks : int
        Requests that keep it, or something after it.
    children : dict
        Those after it by their first page of units, which no two of them share.
    """

    units: Units
    slots: tuple[int, ...]
    parent: "RadixNode | None"
    last_used: int = 0
    num_locks: int = 0
    children: dict[Units, "RadixNode"] = field(default_factory=dict)

    def num_shared(self, key: Sequence[KeyUnit], page_size: int) -> int:
        """Return how many units, in whole pages, a key has in common with this node's."""
        count = 0
        for unit, other in zip(self.units, key, strict=False):
            if unit != other:
                break
            count += 1
        return floor_to(count, page_size)

    def split(self, length: int, page_size: int) -> "RadixNode":
        """Put the first units into a node of their own above this one, and return it.

        This node stays the later one, so that a request that has locked it still names all that it keeps.
        """
        above = RadixNode(self.units[:length], self.slots[:length], self.parent, self.last_used, self.num_locks)
        if self.parent is not None:
            self.parent.children[self.units[:page_size]] = above
        self.units, self.slots, self.parent = self.units[length:], self.slots[length:], above
        above.children[self.units[:page_size]] = self
        return above

    def path(self) -> Iterator["RadixNode"]:
        """Yield this node and those above it, without the root."""
        node: RadixNode | None = self
        while node is not None and node.parent is not None:
            yield node
            node = node.parent

    def descendants(self) -> Iterator["RadixNode"]:
        """Yield every node after this one."""
        waiting = list(self.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())
