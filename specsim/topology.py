"""One tree: who hangs from whom, and in which order. Every other form of a draft tree is read off it.

>>> tree = Topology.from_parents([-1, 0, 0, 1])
>>> tree.children
((1, 2), (3,), (), ())
>>> print(tree)
0
├─ 1
│  └─ 3
└─ 2
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.pictures.tree import Node, draw_tree
from specsim.rejection import Reason, SpecRejection

NONE = -1
"""No child, no further sibling, no parent."""

LINKS = ("next_token", "next_sibling")
"""The links of a node: to its first child, and to its next sibling."""

MOST_LINKED = 512
"""Trees that are remembered by their links: the requests of a batch often have the same few."""

BECAUSE = {
    Reason.NODE_OUT_OF_RANGE: "a link leads to a node of the same tree",
    Reason.CYCLIC_TREE: "a walk along the links comes to an end",
    Reason.SHARED_NODE: "a node hangs in one place, and node 0 in none",
}
"""Why a link that makes a tree none is refused."""


def _numbered(node: int, parent: int | None) -> Node:
    return Node(f"node {node}", parent)


@dataclass(frozen=True)
class Topology:
    """A tree of numbered nodes; node 0 is the root.

    Any other node without a parent is a root of its own, which no verification reaches. Numbers say nothing about
    order: a child or a later sibling may have a smaller one.

    Parameters
    ----------
    children : tuple of tuple of int
        The children of each node in sibling order.

    Raises
    ------
    SpecRejection
        NODE_OUT_OF_RANGE, CYCLIC_TREE; SHARED_NODE: a node hangs in two places, or node 0 in one.
    """

    children: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        fault = fault_of(self.children)
        if fault is not None:
            node, place, reason = fault
            raise _rejection(f"children[{node}][{place}]", self.children[node][place], reason)

    @classmethod
    def from_parents(cls, parents: Sequence[int]) -> "Topology":
        """Return the tree in which every node hangs from its parent, -1 for none; siblings ascend.

        Raises
        ------
        SpecRejection
            NODE_OUT_OF_RANGE, CYCLIC_TREE; SHARED_NODE: node 0 hangs from another.
        """
        children: list[list[int]] = [[] for _ in parents]
        for node, parent in enumerate(parents):
            if not NONE <= parent < len(parents):
                raise _rejection(f"parents[{node}]", parent, Reason.NODE_OUT_OF_RANGE)
            if parent != NONE:
                children[parent].append(node)
        return cls(tuple(map(tuple, children)))

    @classmethod
    def from_links(
        cls, next_token: Sequence[int] | NDArray[Any], next_sibling: Sequence[int] | NDArray[Any]
    ) -> "Topology":
        """Return the tree of these links: first child and next sibling of each node, -1 if none.

        A sibling of a root is a root.

        Raises
        ------
        SpecRejection
            NODE_OUT_OF_RANGE, CYCLIC_TREE, SHARED_NODE.
        """
        return _linked(tuple(np.asarray(next_token).tolist()), tuple(np.asarray(next_sibling).tolist()))

    def __len__(self) -> int:
        return len(self.children)

    def __str__(self) -> str:
        return self.draw([str(node) for node in range(len(self))])

    def _repr_svg_(self) -> str:
        """Return the tree as SVG, which notebooks show."""
        return draw_tree(self.nodes(), f"tree of {len(self)} nodes")

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The parent of each node, -1 for a root."""
        above = [NONE] * len(self)
        for node, below in enumerate(self.children):
            for child in below:
                above[child] = node
        return tuple(above)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """The nodes from the root of each node down to it, both included."""
        found: dict[int, tuple[int, ...]] = {}
        waiting = [node for node, parent in enumerate(self.parents) if parent == NONE]
        while waiting:
            node = waiting.pop()
            found[node] = (*found.get(self.parents[node], ()), node)
            waiting += self.children[node]
        return tuple(found[node] for node in range(len(self)))

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How many nodes stand above each node."""
        return tuple(len(path[:-1]) for path in self.paths)

    @property
    def next_token(self) -> NDArray[np.int64]:
        """The first child of each node, -1 if none, int64 [node]."""
        return np.array([below[0] if below else NONE for below in self.children], dtype=np.int64)

    @property
    def next_sibling(self) -> NDArray[np.int64]:
        """The next sibling of each node, -1 if none, int64 [node]."""
        following = [NONE] * len(self)
        for below in self.children:
            for child, sibling in pairwise(below):
                following[child] = sibling
        return np.array(following, dtype=np.int64)

    @property
    def closure(self) -> NDArray[np.bool_]:
        """Who sees whom, bool [node, node]: every node sees itself and what stands above it."""
        visible = np.zeros((len(self), len(self)), dtype=np.bool_)
        seen = [(node, above) for node, path in enumerate(self.paths) for above in path]
        visible[tuple(np.array(seen, dtype=np.int64).reshape(-1, 2).T)] = True
        return visible

    @cached_property
    def in_order(self) -> tuple[int, ...]:
        """The nodes, parents before their children and siblings in their order; other roots follow node 0."""
        waiting = [node for node, parent in enumerate(self.parents) if parent == NONE][::-1]
        order = []
        while waiting:
            order.append(waiting.pop())
            waiting += reversed(self.children[order[-1]])
        return tuple(order)

    def nodes(self, describe: Callable[[int, int | None], Node] = _numbered) -> list[Node]:
        """Return the nodes in order as pictures take them.

        Parameters
        ----------
        describe : callable
            Takes a node and the place of its parent in that order, None for a root; returns what the picture shows.
        """
        places = {node: place for place, node in enumerate(self.in_order)}
        return [describe(node, places.get(self.parents[node])) for node in self.in_order]

    def path_to(self, node: int) -> list[int]:
        """Return the nodes from the root down to a node, both included."""
        return list(self.paths[node])

    def draw(self, labels: Sequence[str]) -> str:
        """Return the tree as text, one line a node, siblings in their order; other roots follow node 0."""
        roots = [node for node, parent in enumerate(self.parents) if parent == NONE]
        return "\n".join(line for root in roots for line in self._lines(root, labels))

    def _lines(self, root: int, labels: Sequence[str]) -> Iterator[str]:
        waiting = [(root, "", "")]
        while waiting:
            node, before, below = waiting.pop()
            yield before + labels[node]
            last = self.children[node][-1:]
            for child in reversed(self.children[node]):
                branch, rest = ("└─ ", "   ") if child in last else ("├─ ", "│  ")
                waiting.append((child, below + branch, below + rest))


def misplaced_link(next_token: NDArray[Any], next_sibling: NDArray[Any]) -> tuple[int, int, int, Reason] | None:
    """Return the first link of a batch that makes a tree none, or None.

    Parameters
    ----------
    next_token, next_sibling : integer [request, node]
        First child and next sibling of each node, -1 if none.

    Returns
    -------
    fault : tuple or None
        Request, node, which of ``LINKS``, and NODE_OUT_OF_RANGE, CYCLIC_TREE, or SHARED_NODE: it is the second link to
        a node, or one to the root.
    """
    links = np.stack([next_token, next_sibling], axis=2)
    num_requests, num_nodes, _ = links.shape
    # NOTE: links that all lead to larger numbers, each to another, are those of a tree; that is cheap to see.
    is_ahead = ((links == NONE) | (links > np.arange(num_nodes)[:, None])) & (links < num_nodes)
    targets = np.sort(links.reshape(num_requests, 2 * num_nodes), axis=1)
    is_repeated = (targets[:, 1:] == targets[:, :-1]) & (targets[:, 1:] != NONE)
    for request in np.flatnonzero(~is_ahead.all(axis=(1, 2)) | is_repeated.any(axis=1)).tolist():
        fault = fault_of(links[request].tolist())
        if fault is not None:
            return request, *fault
    return None


def fault_of(targets: Sequence[Sequence[int]]) -> tuple[int, int, Reason] | None:
    """Return the first link that makes a tree none, or None: its node, its place among the links of the node, and why.

    A link out of range comes before one that closes a cycle, and that before a second one to the same node.

    Parameters
    ----------
    targets : sequence of sequence of int
        Where the links of each node lead, -1 for nowhere.
    """
    links = [(node, place, target) for node, row in enumerate(targets) for place, target in enumerate(row)]
    for node, place, target in links:
        if not NONE <= target < len(targets):
            return node, place, Reason.NODE_OUT_OF_RANGE
    closing = _closing_link(targets)
    if closing is not None:
        return *closing, Reason.CYCLIC_TREE
    seen = {0}
    for node, place, target in links:
        if target in seen:
            return node, place, Reason.SHARED_NODE
        if target != NONE:
            seen.add(target)
    return None


def _closing_link(targets: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Return the node and the place of a link that leads back to where a walk came from, or None."""
    entered, left = set[int](), set[int]()
    for start in range(len(targets)):
        walk = [(start, 0)]
        while walk:
            node, place = walk.pop()
            if place == 0 and node in left:
                continue
            entered.add(node)
            if place == len(targets[node]):
                left.add(node)
                continue
            walk.append((node, place + 1))
            target = targets[node][place]
            if target in entered and target not in left:
                return node, place
            if target != NONE:
                walk.append((target, 0))
    return None


@lru_cache(MOST_LINKED)
def _linked(first: tuple[int, ...], following: tuple[int, ...]) -> Topology:
    links = (first, following)
    fault = fault_of([*zip(first, following, strict=True)])
    if fault is not None:
        node, kind, reason = fault
        raise _rejection(f"{LINKS[kind]}[{node}]", links[kind][node], reason)
    return Topology(tuple(tuple(_chain(node, following)) for node in first))


def _chain(node: int, following: Sequence[int]) -> Iterator[int]:
    while node != NONE:
        yield node
        node = following[node]


def _rejection(what: str, got: int, reason: Reason) -> SpecRejection:
    expected = (
        "-1 or the number of a node" if reason is Reason.NODE_OUT_OF_RANGE else "-1 or a node that hangs nowhere yet"
    )
    return SpecRejection(reason, what, got, expected, BECAUSE[reason])
