"""Draft trees of a batch with whatever else each request brings: those of the draft pipeline, and arbitrary ones."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.properties.composite import composite
from specsim.properties.strategies import topologies
from specsim.properties.strategies.arrays import Arguments, Array, Bulk, bulk, mostly
from specsim.properties.strategies.limits import limits, nearest, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.recursion import Proposal, proposals, propose, select
from specsim.reference import build_tree
from specsim.topology import Topology

T = TypeVar("T")

MOST_STEPS = (1024, 1024, 1024, 0, 1, 2, 3, 5, 8, 13, 34)
WIDE = (34, 65, 70)
"""Nodes of a star whose siblings outnumber a warp."""


@dataclass(frozen=True)
class Tree:
    """One request of a verify: its tree and the token of each node."""

    topology: Topology
    tokens: Array

    @property
    def children(self) -> list[list[int]]:
        """The children of each node in sibling order."""
        return [list(below) for below in self.topology.children]


@dataclass(frozen=True)
class Trees(Generic[T]):
    """The trees of a batch, their common width, the longest path, and what else was drawn for each request."""

    requests: list[Tree]
    width: int
    num_steps: int
    others: list[T]

    def arguments(self) -> Arguments:
        """Return the arguments that every verify takes."""
        shape = (len(self.requests), self.width)
        return {
            "candidates": self._stacked([tree.tokens for tree in self.requests]),
            "retrieve_index": np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape),
            "retrieve_next_token": self._stacked([tree.topology.next_token for tree in self.requests]),
            "retrieve_next_sibling": self._stacked([tree.topology.next_sibling for tree in self.requests]),
            "num_steps": self.num_steps,
        }

    def stacked(self, rows: Sequence[Array], dtype: Any, *trailing: int) -> Array:
        """Return one block of nodes a request, shaped ``[request, node, ...]``."""
        return np.array(rows, dtype=dtype).reshape(len(self.requests), self.width, *trailing)

    def _stacked(self, rows: Sequence[Array]) -> Array:
        return self.stacked(rows, np.int64)


@made_once
def trees(
    of_request: SearchStrategy[T],
    max_requests: int,
    vocab: int | None = None,
    most_nodes: int | None = None,
    kinds: Sequence[str] = topologies.TREE_KINDS,
) -> SearchStrategy[Trees[T]]:
    """Return a strategy of batches of trees.

    Parameters
    ----------
    of_request : strategy
        What else each request brings.
    vocab : int or None
        Tokens lie below it; None lets each request have its own small vocabulary, so that equal tokens are common.
    most_nodes : int or None
        Keeps trees small where a node is dear; such trees do not come from the draft pipeline.
    kinds : sequence of str
        Shapes of arbitrary trees. With others than all there is no tree of the draft pipeline, trees are wide, and
        tokens distinct if there are enough.
    """
    arbitrary = _arbitrary_trees(of_request, max_requests, vocab, most_nodes, kinds)
    has_too_few_tokens = limits().has_distinct_siblings and vocab is not None
    return (
        arbitrary
        if most_nodes or kinds != topologies.TREE_KINDS or has_too_few_tokens
        else mostly(arbitrary, _pipeline_trees(of_request, max_requests, vocab), one_in=3)
    )


@composite
def _pipeline_trees(draw: DrawFn, of_request: SearchStrategy[T], max_requests: int, vocab: int | None) -> Trees[T]:
    size = draw(topologies.sizes())
    requests = draw(topologies.batch(st.tuples(proposals(), of_request), max_requests))
    drafts = [_drafted(size, proposal if vocab is None else replace(proposal, vocab=vocab)) for proposal, _ in requests]
    if limits().has_distinct_siblings:
        drafts = [
            _with_distinct_siblings(tree, 50, one.source) for tree, (one, _) in zip(drafts, requests, strict=True)
        ]
    num_steps = nearest("num_steps", min(size.num_steps, size.num_draft_tokens - 1))
    return Trees(drafts, size.num_draft_tokens, num_steps, [other for _, other in requests])


@composite
def _arbitrary_trees(
    draw: DrawFn,
    of_request: SearchStrategy[T],
    max_requests: int,
    vocab: int | None,
    most_nodes: int | None,
    kinds: Sequence[str],
) -> Trees[T]:
    width = draw(topologies.num_nodes() if kinds == topologies.TREE_KINDS else sized("node", st.sampled_from(WIDE)))
    width = min(width, most_nodes or width)
    size = vocab or draw(st.sampled_from((1, 2, 3, 8)))
    one = st.tuples(st.sampled_from(kinds), st.sampled_from(topologies.ORDERS), bulk(), of_request)
    requests = draw(topologies.batch(one, max_requests))
    is_distinct = kinds != topologies.TREE_KINDS and size >= width
    widest = size if limits().has_distinct_siblings else width
    drawn = [
        Tree(
            topologies.reordered(narrowed(topologies.tree_of_kind(kind, width, source), widest), order, source),
            source.order(size)[:width] if is_distinct else source.integers(width, 0, size - 1),
        )
        for kind, order, source, _ in requests
    ]
    if limits().has_distinct_siblings:
        drawn = [_with_distinct_siblings(tree, size, one[2]) for tree, one in zip(drawn, requests, strict=True)]
    num_steps = nearest("num_steps", min(draw(st.sampled_from(MOST_STEPS)), width - 1))
    return Trees(drawn, width, num_steps, [other for *_, other in requests])


def narrowed(tree: Topology, widest: int) -> Topology:
    """Return a tree whose nodes have so many children at most; who is one too many hangs from the node before it."""
    if widest >= len(tree):
        return tree
    parents, counts = list(tree.parents), [0] * len(tree)
    for node, above in enumerate(parents[1:], 1):
        parents[node] = above if counts[above] < widest else node - 1
        counts[parents[node]] += 1
    return Topology.from_parents(parents)


def _with_distinct_siblings(tree: Tree, vocab: int, source: Bulk) -> Tree:
    tokens = tree.tokens.copy()
    for below in tree.children:
        tokens[below] = source.order(vocab)[: len(below)]
    return Tree(tree.topology, tokens)


def _drafted(size: topologies.Sizes, proposal: Proposal) -> Tree:
    parent_list, index, tokens = (part[None] for part in select(size, propose(size, proposal)))
    draft_token, _, next_token, next_sibling, _, _ = build_tree(
        np.zeros(1, dtype=np.int32), parent_list, index, tokens, np.zeros(1, dtype=np.int64), *astuple(size)
    )
    return Tree(Topology.from_links(next_token[0], next_sibling[0]), draft_token)
