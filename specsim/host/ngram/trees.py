"""Draft trees: which continuations of which ends of a text enter a draft, and in which order."""

import heapq
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from itertools import count, islice

from specsim.counts import count_draft_nodes
from specsim.host.ngram.continuation import Anchor, Continuation, most_common
from specsim.host.ngram.parameters import NgramParameters, TreeMode

ROOT = 0


class DraftTree:
    """Nodes in the order in which they were created, the root first; siblings hold different tokens.

    Parameters
    ----------
    num_nodes : int
        How many it may have, the root included.
    """

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.children: list[dict[int, int]] = [{}]

    @property
    def is_full(self) -> bool:
        """Whether no node may follow."""
        return len(self.children) >= self.num_nodes

    def reach(self, parent: int, token: int) -> int:
        """Return the child of a node with that token, which is created where it is not there."""
        child = self.children[parent].get(token)
        if child is None:
            child = len(self.children)
            self.children[parent][token] = child
            self.children.append({})
        return child


def grow_tree(anchors: Sequence[Anchor], parameters: NgramParameters, num_nodes: int) -> DraftTree:
    """Return the tree that some anchors lead to, the longest anchor first."""
    grow = grow_by_breadth if parameters.mode == TreeMode.BFS else grow_by_probability
    return grow(anchors, parameters, num_nodes)


def grow_by_breadth(anchors: Sequence[Anchor], parameters: NgramParameters, num_nodes: int) -> DraftTree:
    """Grow a tree anchor by anchor and level by level: after longer contexts and deeper levels fewer are followed.

    Notes
    -----
    Source: semantics A.13b, BFS.
    """
    tree = DraftTree(num_nodes)
    # Breadths are counted in shares of a child, so that no rounding decides whether one more is followed.
    shares = max(1, count_draft_nodes(parameters.max_depth))
    narrower = parameters.max_breadth - parameters.min_breadth
    for anchor in anchors:
        first = (shares - anchor.num_tokens) * narrower + parameters.min_breadth * shares
        queue: deque[tuple[int, int, Continuation]] = deque([(ROOT, first, anchor.node)])
        while queue:
            place, breadth, node = queue.popleft()
            for child in islice(node.newest_first(), max(1, breadth // shares)):
                if tree.is_full:
                    return tree
                queue.append((tree.reach(place, child.token), breadth - narrower, child))
    return tree


def grow_by_probability(anchors: Sequence[Anchor], parameters: NgramParameters, num_nodes: int) -> DraftTree:
    """Grow a tree anchor by anchor by the likeliest that could follow; of two as likely, by the one that was met first.

    What follows a longer anchor is taken to its end before a shorter one is asked, however likely that would be.

    Notes
    -----
    Source: semantics A.13b, PROB.
    """
    tree, met = DraftTree(num_nodes), count()
    heap: list[tuple[Fraction, int, int, Continuation]] = []

    def meet(place: int, node: Continuation, probability: Fraction) -> None:
        followed = most_common(node, parameters.max_breadth)
        total = sum(child.count for child in followed)
        for child in followed:
            heapq.heappush(heap, (-probability * child.count / total, next(met), place, child))

    for anchor in anchors:
        meet(ROOT, anchor.node, Fraction(1))
        while heap:
            if tree.is_full:
                return tree
            negative, _, place, child = heapq.heappop(heap)
            meet(tree.reach(place, child.token), child, -negative)
    return tree
