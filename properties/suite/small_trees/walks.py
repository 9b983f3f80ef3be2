"""Greedy verification: every ordered tree, every way in which siblings are equal, every end of a walk, every limit."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from specsim.properties.suite.small_trees.forms import Arguments, Array, Form, Scope
from specsim.properties.suite.small_trees.shapes import children_of, count_walks, ordered_trees, partitions

ORDERS = (1, -1)
"""Trees are numbered level by level, and the other way round: a child then has a smaller number than its parent.

Tokens are numbers of nodes, so that those of siblings ascend in one order and descend in the other.
"""


def _orders(num_nodes: int) -> Sequence[int]:
    # NOTE: a root and one child are numbered in one way.
    return ORDERS if num_nodes > 2 else ORDERS[:1]


def _scopes(num_nodes: int) -> Iterator[Scope]:
    # NOTE: trees without equal siblings make calls of their own, for those who take no others.
    for has_twins in (False, True):
        walks = [_walks(parents, has_twins) for parents in ordered_trees(num_nodes)]
        tokens, targets = (np.concatenate([walk[place] for walk in walks]) for place in range(2))
        trees = np.repeat(np.arange(len(walks)), [len(walk[0]) for walk in walks])
        for order in _orders(num_nodes):
            # NOTE: either order undoes itself, so that a node's number is also the node of a number.
            number = np.arange(num_nodes) * order % num_nodes
            links = [_links(children, number) for _, _, children in walks]
            next_token, next_sibling = (np.array(link)[trees] for link in zip(*links, strict=True))
            columns = {
                "candidates": number[tokens[:, number]],
                "target_predict": number[targets[:, number]],
                "retrieve_next_token": next_token,
                "retrieve_next_sibling": next_sibling,
            }
            for num_steps in range(num_nodes + 1) if len(tokens) else ():
                yield Scope({"node": num_nodes, "num_steps": num_steps}, columns)


def _walks(parents: Sequence[int], has_twins: bool) -> tuple[Array, Array, list[list[int]]]:
    """Return the tokens of a tree, what the target chooses after each node, both [walk, node], and the children.

    A token is the number of the first sibling that has it. Nodes that a walk does not come to would accept their first
    child; where it ends the target chooses what a sibling holds, or the node itself, which none of its children does.
    """
    num_nodes, children = len(parents), children_of(parents)
    own = np.arange(num_nodes)
    equal = [_tokens(children, way) for way in product(*(partitions(len(below)) for below in children))]
    chosen = [tokens for tokens in equal if (tokens != own).any() == has_twins]
    tokens = np.array(chosen, dtype=np.int64).reshape(-1, num_nodes)
    is_reached = tokens == own
    for node in range(1, num_nodes):
        is_reached[:, node] &= is_reached[:, parents[node]]
    way, end = np.nonzero(is_reached)
    tokens = tokens[way]
    targets = np.tile([below[0] if below else node for node, below in enumerate(children)], (len(end), 1))
    for node in range(num_nodes):
        walks = end == node
        # NOTE: who goes on with the siblings of the last node, or with the node itself, finds one that fits.
        targets[walks, node] = tokens[walks, children[parents[node]][-1] if node else 0]
        below = node
        while below:
            targets[walks, parents[below]] = below
            below = parents[below]
    return tokens, targets, children


def _tokens(children: Sequence[Sequence[int]], way: Sequence[Sequence[int]]) -> Array:
    tokens = np.arange(len(children), dtype=np.int64)
    for below, firsts in zip(children, way, strict=True):
        tokens[list(below)] = [below[first] for first in firsts]
    return tokens


def _links(children: Sequence[Sequence[int]], number: Array) -> tuple[Array, Array]:
    """Return first children and next siblings of a tree whose nodes get other numbers."""
    next_token, next_sibling = (np.full(len(children), -1, dtype=np.int64) for _ in range(2))
    for node, below in enumerate(children):
        for place, child in enumerate(below):
            if place == 0:
                next_token[number[node]] = number[child]
            else:
                next_sibling[number[below[place - 1]]] = number[child]
    return next_token, next_sibling


def _pack(scope: Scope) -> Arguments:
    num_nodes = scope.sizes["node"]
    return {"retrieve_index": np.arange(len(scope) * num_nodes, dtype=np.int64).reshape(-1, num_nodes)}


def _count(num_nodes: int) -> int:
    # NOTE: a walk is cut after 0 steps, 1, and so on, up to one more than any tree has levels below its root.
    return len(_orders(num_nodes)) * (num_nodes + 1) * count_walks(num_nodes)


FORMS = (Form("verify_tree_greedy", _count, _scopes, _pack),)
