"""Shapes that several operations share: batches, tree sizes, trees, pools, pages and request rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.counts import count_candidates
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, Array, Bulk, mostly
from specsim.properties.strategies.limits import limits, nearest, sized
from specsim.properties.strategies.made_once import made_once
from specsim.topology import Topology

T = TypeVar("T")

TREE_KINDS = ("chain", "star", "binary", "random", "deep")
ORDERS = ("ascending", "numbers", "siblings", "numbers")
"""Whether siblings ascend, stand in any order, or any node but the root has any number."""
BOUNDARY_LENGTHS = (31, 32, 33, 63, 64, 65, 127, 128, 129, 150)
BOUNDARY_NODES = (31, 32, 33, 63, 64, 65)
LARGE_DRAFTS = ((1, 1), (4, 6), (8, 3), (16, 2))


@dataclass(frozen=True)
class Sizes:
    """Branching factor, depth and nodes (root included) of a draft."""

    topk: int
    num_steps: int
    num_draft_tokens: int


@made_once
@composite
def sizes(draw: DrawFn, fewest_nodes: int = 2, most_nodes: int = 24) -> Sizes:
    """Draw the sizes of a draft: small ones, and now and then one at the end of a word or a tile."""
    if draw(st.sampled_from((False, False, False, False, True))):
        nodes = draw(st.sampled_from(BOUNDARY_NODES))
        topk, num_steps = draw(st.sampled_from(LARGE_DRAFTS))
        return _taken(Sizes(topk, nodes - 1 if topk == 1 else num_steps, nodes))
    topk = draw(st.integers(1, 5))
    num_steps = draw(st.integers(1, 5))
    most = min(1 + count_candidates(topk, num_steps), most_nodes)
    if topk == 1:
        return _taken(Sizes(1, num_steps, num_steps + 1))
    return _taken(Sizes(topk, num_steps, draw(st.integers(min(fewest_nodes, most), most))))


def _taken(size: Sizes) -> Sizes:
    """Return the sizes next to these that are taken; a chain stays one, and a tree grows no larger than its steps."""
    topk, num_steps = nearest("topk", size.topk), nearest("step", size.num_steps)
    nodes = nearest("node", size.num_draft_tokens)
    if topk == 1:
        num_steps = nearest("step", nodes - 1)
        return Sizes(1, num_steps, num_steps + 1)
    while nodes > 1 + count_candidates(topk, num_steps) and nearest("step", num_steps + 1) > num_steps:
        num_steps = nearest("step", num_steps + 1)
    return Sizes(topk, num_steps, min(nodes, 1 + count_candidates(topk, num_steps)))


@made_once
def batch(
    request: SearchStrategy[T], max_requests: int = MAX_REQUESTS, axis: str = "request"
) -> SearchStrategy[list[T]]:
    """Return a strategy of batches along an axis: lists of requests, one in eight the empty one."""
    if max_requests == 0:
        return st.just([])
    fewest = nearest(axis, 1)
    several = st.lists(request, min_size=fewest, max_size=max(fewest, nearest(axis, max_requests)))
    empty: list[T] = []
    takes_empty = limits().takes_empty and nearest(axis, 0) == 0
    return mostly(several, st.just(empty), one_in=8) if takes_empty else several


@made_once
def lengths() -> SearchStrategy[int]:
    """Return a strategy of committed lengths: short ones, 0, and those at the end of a block."""
    return sized("length", mostly(st.integers(0, 12), st.sampled_from(BOUNDARY_LENGTHS), one_in=5))


@made_once
def num_nodes() -> SearchStrategy[int]:
    """Return a strategy of tree sizes, root included."""
    return sized("node", mostly(st.integers(1, 12), st.sampled_from(BOUNDARY_NODES), one_in=5))


def tree_of_kind(kind: str, count: int, source: Bulk) -> Topology:
    """Return a tree in which parents precede children and siblings ascend.

    Parameters
    ----------
    kind : str
        One of ``TREE_KINDS``; the deep kind hangs each node from one of the two before it.
    count : int
        Nodes, root included.
    """
    above: dict[str, Callable[[int], int]] = {
        "chain": lambda node: node - 1,
        "star": lambda node: 0,
        "binary": lambda node: (node - 1) // 2,
        "random": lambda node: source.integer(0, node - 1),
        "deep": lambda node: source.integer(max(node - 2, 0), node - 1),
    }
    chosen = above[kind]
    return Topology.from_parents([-1, *(chosen(node) for node in range(1, count))])


def reordered(tree: Topology, order: str, source: Bulk) -> Topology:
    """Return the tree with its siblings in another order, or with other numbers too; one of ``ORDERS``."""
    if order == "ascending":
        return tree
    number = np.arange(len(tree))
    if order == "numbers":
        number[1:] = source.order(len(tree) - 1) + 1
    children: list[tuple[int, ...]] = [()] * len(tree)
    for node, below in enumerate(tree.children):
        children[number[node]] = tuple(number[[below[place] for place in source.order(len(below))]].tolist())
    return Topology(tuple(children))


def distinct_slots(source: Bulk, count: int, num_slots: int) -> Array:
    """Return distinct slots below ``num_slots`` in no order; slot 0 is not among them."""
    return source.order(num_slots - 1)[:count] + 1


def any_slots(source: Bulk, count: int) -> Array:
    """Return distinct slots of a pool with room to spare, int64."""
    return distinct_slots(source, count, 2 * count + 2).astype(np.int64)


def request_rows(source: Bulk, num_requests: int, width: int, page_size: int = 1) -> tuple[Array, Array]:
    """Return the row of each request and the request-to-token map.

    Rows are distinct and above padding row 0, which stays zero; every other entry is a slot of its own, those past
    the used positions too. A page-sized run of positions lies in one page.
    """
    num_rows = num_requests + 1 + source.integer(0, 2)
    pages_per_row = -(-width // page_size)
    pages = distinct_slots(source, (num_rows - 1) * pages_per_row, (num_rows - 1) * pages_per_row * 2 + 2)
    slots = pages.reshape(num_rows - 1, pages_per_row, 1) * page_size + np.arange(page_size)
    req_to_token = np.zeros((num_rows, width), dtype=np.int32)
    req_to_token[1:] = slots.reshape(num_rows - 1, pages_per_row * page_size)[:, :width]
    req_pool_indices = source.order(num_rows - 1)[:num_requests] + 1
    return req_pool_indices.astype(np.int64), req_to_token


def mapped(rows: tuple[Array, Array], lengths: Sequence[int] | Array, dtype: Any) -> Arguments:
    """Return what operations on rows of the map take: the row of each request, the map, and committed lengths."""
    return {"req_pool_indices": rows[0], "req_to_token": rows[1], "seq_lens": np.array(lengths, dtype=dtype)}


def slack() -> SearchStrategy[int]:
    """Return how many positions a row has past the last used one; most often none."""
    return st.sampled_from((0, 0, 1, 3, 9))
