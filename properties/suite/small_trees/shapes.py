"""Every tree, forest, selection of drafts and path of a number of nodes, and how many there are of each."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations, product
from math import comb, perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specsim.topology import NONE

Ints = NDArray[np.int64]


def ordered_trees(num_nodes: int) -> Iterator[tuple[int, ...]]:
    """Yield every ordered tree once, as the parents of its nodes level by level, from left to right; -1 of the root.

    Numbered so, parents do not descend: a tree is any such sequence in which a parent comes before its child.
    """

    def longer(parents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(parents) == num_nodes:
            yield parents
            return
        for parent in range(max(parents[-1], 0), len(parents)):
            yield from longer((*parents, parent))

    return longer((NONE,))


def children_of(parents: Sequence[int]) -> list[list[int]]:
    """Return the children of each node, from left to right."""
    return [[node for node, parent in enumerate(parents) if parent == above] for above in range(len(parents))]


@cache
def partitions(size: int) -> tuple[tuple[int, ...], ...]:
    """Return every way in which some siblings can have equal tokens: of each sibling the first one that is equal."""
    found: list[tuple[int, ...]] = [()]
    for place in range(size):
        found = [(*firsts, first) for firsts in found for first in (*sorted(set(firsts)), place)]
    return tuple(found)


def forests(num_nodes: int) -> Ints:
    """Return every forest in which parents have smaller numbers, node 0 a root, as int64 [forest, node] of parents."""
    choices = [range(NONE, node) for node in range(1, num_nodes)]
    return np.array([(NONE, *parents) for parents in product(*choices)], dtype=np.int64)


def closure(parents: Ints) -> NDArray[np.bool_]:
    """Return which nodes of some forests see which, bool [forest, node, node]; parents have smaller numbers."""
    num_forests, num_nodes = parents.shape
    visible = np.zeros((num_forests, num_nodes, num_nodes), dtype=np.bool_)
    for node in range(num_nodes):
        if node:
            has_parent = parents[:, node] >= 0
            visible[:, node] = visible[np.arange(num_forests), parents[:, node]] & has_parent[:, None]
        visible[:, node, node] = True
    return visible


class Selections(NamedTuple):
    """Every set of drafts that a selection by score can keep, int64 [selection, draft], level by level.

    ``level`` is that of a draft, from 0. ``beam`` is the place of its parent among the drafts of the level before, by
    score, and ``rank`` its own among the candidates of that parent, of which the best are kept. ``place`` is its own
    among the drafts of its level.
    """

    level: Ints
    beam: Ints
    rank: Ints
    place: Ints


@cache
def selections(num_drafts: int) -> Selections:
    """Return every selection of some drafts.

    The drafts of a level, by score, are a word over the drafts of the level before: whose candidate comes next. The
    words of all levels say everything.
    """
    found: list[list[tuple[int, ...]]] = []

    def grow(drafts: list[tuple[int, ...]], level: int, width: int) -> None:
        left = num_drafts - len(drafts)
        if not left:
            found.append(drafts)
        for size in range(1, left + 1):
            for word in product(range(width), repeat=size):
                grow([*drafts, *_of_a_level(word, level)], level + 1, size)

    # NOTE: the first level has the root alone above it.
    grow([], 0, 1)
    stacked = np.array(found, dtype=np.int64).reshape(len(found), num_drafts, len(Selections._fields))
    return Selections(*np.moveaxis(stacked, 2, 0))


def _of_a_level(word: Sequence[int], level: int) -> Iterator[tuple[int, ...]]:
    for place, beam in enumerate(word):
        yield level, beam, word[:place].count(beam), place


def paths(num_nodes: int, length: int) -> Ints:
    """Return every path of some nodes, the root first, as int64 [path, length]; without any node there is one."""
    rest = permutations(range(1, num_nodes), max(length - 1, 0))
    return _as_rows([(0, *nodes)[:length] for nodes in rest], length)


def injections(num_slots: int, length: int) -> Ints:
    """Return every list of distinct slots, int64 [list, length]."""
    return _as_rows([*permutations(range(num_slots), length)], length)


def _as_rows(lists: list[tuple[int, ...]], length: int) -> Ints:
    return np.array(lists, dtype=np.int64).reshape(len(lists), length)


@cache
def count_walks(num_nodes: int) -> int:
    """Return how many walks end in some tree with equal siblings: ends over all ordered trees and their partitions.

    A walk ends in any node that is, like all nodes above it, the first of the siblings that are equal to it.
    """
    bell = [1]
    for size in range(num_nodes):
        bell.append(sum(comb(size, other) * bell[other] for other in range(size + 1)))

    @cache
    def count_trees(size: int) -> int:
        return sum(bell[width] * count_rows(size - 1, width) for width in range(size))

    @cache
    def count_rows(size: int, width: int) -> int:
        if width == 0:
            return int(size == 0)
        return sum(count_trees(first) * count_rows(size - first, width - 1) for first in range(1, size + 1))

    @cache
    def count_ends(size: int) -> int:
        # NOTE: a partition of ``width`` siblings has, over all of them, this many first ones to go on from.
        below = sum(
            (bell[width + 1] - bell[width]) * count_ends(first) * count_rows(size - 1 - first, width - 1)
            for width in range(1, size)
            for first in range(1, size)
        )
        return count_trees(size) + below

    return count_ends(num_nodes)


def count_selections(num_drafts: int, topk: int, num_steps: int) -> int:
    """Return how many selections there are of some drafts with as many beams and levels."""

    @cache
    def count_words(size: int, width: int) -> int:
        """Count words of a length over some beams, none of which has more candidates than there are."""
        if width == 0:
            return int(size == 0)
        most = min(topk, size)
        return sum(comb(size, own) * count_words(size - own, width - 1) for own in range(most + 1))

    @cache
    def count(left: int, width: int, levels: int) -> int:
        if left == 0:
            return 1
        if levels == 0:
            return 0
        sizes = range(1, left + 1)
        return sum(count_words(size, min(width, topk)) * count(left - size, size, levels - 1) for size in sizes)

    return count(num_drafts, 1, num_steps)


def count_paths(num_nodes: int, width: int) -> int:
    """Return how many paths fit a row of some width, the one without any node included."""
    return 1 + sum(perm(num_nodes - 1, length - 1) for length in range(1, width + 1))


def count_injections(num_slots: int) -> int:
    """Return how many lists of distinct slots there are, of any length."""
    return sum(perm(num_slots, length) for length in range(num_slots + 1))
