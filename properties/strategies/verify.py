"""Strategies of the verify operations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    Arguments,
    Array,
    Bulk,
    bulk,
    mostly,
    overridden,
)
from specsim.properties.strategies.recursion import Proposal, proposals, propose, select
from specsim.properties.strategies.topologies import (
    TREE_KINDS,
    Sizes,
    batch,
    lengths,
    links_of,
    num_nodes,
    parents,
    parents_of_links,
    request_rows,
    sizes,
    slack,
)
from specsim.reference import build_tree

TARGET_KINDS = ("none", "first child", "path", "random", "last child")
_NEVER_DRAFTED = 60
_LOGITS = (0, -1, 2**62, -(2**62))


@dataclass(frozen=True)
class Tree:
    """One request of a verify: links and the token of each node."""

    next_token: Array
    next_sibling: Array
    tokens: Array


@st.composite
def target_verify_metadata(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows in whole pages; the page table may cover more than the longest sequence."""
    page_size = draw(st.sampled_from((1, 1, 1, 2, 4, 16)))
    committed = draw(batch(lengths(), max_requests))
    tokens_per_request = draw(st.integers(0, 8))
    longest = max(committed, default=0) + tokens_per_request
    max_seq_len_k = longest + draw(slack())
    source = draw(bulk())
    req_pool_indices, req_to_token = request_rows(source, len(committed), max_seq_len_k + draw(slack()), page_size)
    return {
        "req_pool_indices": req_pool_indices,
        "req_to_token": req_to_token,
        "seq_lens": np.array(committed, dtype=draw(st.sampled_from(LENGTH_DTYPES))),
        "num_tokens": len(committed) * tokens_per_request,
        "max_seq_len_k": max_seq_len_k,
        "page_size": page_size,
    }


@st.composite
def argmax_target_predict(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw logits with ties, and integers that float64 cannot tell apart."""
    vocab = draw(mostly(st.integers(1, 20), st.sampled_from((31, 32, 33, 64, 65, 129, 257)), one_in=3))
    spread, middle = draw(st.sampled_from((0, 1, 3, 2**40))), draw(st.sampled_from((0, 2**53)))
    rows = [middle + source.integers(vocab, -spread, spread) for source in draw(batch(bulk(), max_requests))]
    logits = np.array(rows, dtype=np.int64).reshape(len(rows), vocab)
    if draw(st.booleans()):
        return {"logits": draw(overridden(logits, _LOGITS))}
    specials = (float("-inf"), -0.0, 0.0, float(2**40), -1.0)
    return {"logits": draw(overridden((logits % 8 - 4).astype(np.float32), specials))}


@st.composite
def verify_tree_greedy(draw: DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw trees of the draft pipeline or arbitrary ones, and targets that accept paths of every length."""
    trees, num_steps = draw(st.one_of(_pipeline_trees(max_requests), _arbitrary_trees(max_requests)))
    width = trees.width
    shape = (len(trees.requests), width)
    targets = [
        draw(overridden(_target(kind, tree, source), (0, 1, _NEVER_DRAFTED)))
        for tree, (kind, source) in zip(trees.requests, trees.targets, strict=True)
    ]
    return {
        "candidates": np.array([tree.tokens for tree in trees.requests], dtype=np.int64).reshape(shape),
        "retrieve_index": np.arange(shape[0] * width, dtype=np.int64).reshape(shape),
        "retrieve_next_token": np.array([tree.next_token for tree in trees.requests], dtype=np.int64).reshape(shape),
        "retrieve_next_sibling": np.array([tree.next_sibling for tree in trees.requests], dtype=np.int64).reshape(
            shape
        ),
        "target_predict": np.array(targets, dtype=np.int64).reshape(shape),
        "num_steps": num_steps,
    }


@dataclass(frozen=True)
class Trees:
    """The trees of a batch, their common width, and how the target of each is made."""

    requests: list[Tree]
    width: int
    targets: list[tuple[str, Bulk]]


def _target_kinds() -> SearchStrategy[tuple[str, Bulk]]:
    return st.tuples(st.sampled_from(TARGET_KINDS), bulk())


@st.composite
def _pipeline_trees(draw: DrawFn, max_requests: int) -> tuple[Trees, int]:
    size = draw(sizes())
    requests = draw(batch(st.tuples(proposals(), _target_kinds()), max_requests))
    trees = [_drafted(size, proposal) for proposal, _ in requests]
    num_steps = min(size.num_steps, size.num_draft_tokens - 1)
    return Trees(trees, size.num_draft_tokens, [target for _, target in requests]), num_steps


@st.composite
def _arbitrary_trees(draw: DrawFn, max_requests: int) -> tuple[Trees, int]:
    width = draw(num_nodes())
    vocab = draw(st.sampled_from((1, 2, 3, 8)))
    requests = draw(batch(st.tuples(st.sampled_from(TREE_KINDS), bulk(), _target_kinds()), max_requests))
    trees = [
        Tree(*links_of(parents(kind, width, source)), source.integers(width, 0, vocab - 1))
        for kind, source, _ in requests
    ]
    num_steps = draw(st.one_of(st.just(width - 1), st.integers(0, width - 1)))
    return Trees(trees, width, [target for _, _, target in requests]), num_steps


def _drafted(size: Sizes, proposal: Proposal) -> Tree:
    parent_list, index, tokens = (part[None] for part in select(size, propose(size, proposal)))
    draft_token, _, next_token, next_sibling, _, _ = build_tree(
        np.zeros(1, dtype=np.int32),
        parent_list,
        index,
        tokens,
        np.zeros(1, dtype=np.int64),
        size.topk,
        size.num_steps,
        size.num_draft_tokens,
    )
    return Tree(next_token[0], next_sibling[0], draft_token)


def _target(kind: str, tree: Tree, source: Bulk) -> Array:
    """Return the target's choice after each node.

    The kinds accept nothing, the longest first-child path, one random path and nothing after it, whatever happens to
    match, or the path of last children, where earlier siblings are tried in vain.
    """
    count = len(tree.tokens)
    target = source.integers(count, 0, int(tree.tokens.max()))
    if kind == "random":
        return target
    children = _children(tree)
    if kind == "none":
        target[0] = _NEVER_DRAFTED
    elif kind == "path":
        end = source.integer(0, count - 1)
        target[end] = _NEVER_DRAFTED
        parent = parents_of_links(tree.next_token.tolist(), tree.next_sibling.tolist())
        while parent[end] >= 0:
            target[parent[end]] = tree.tokens[end]
            end = parent[end]
    else:
        for node, below in enumerate(children):
            if below:
                target[node] = tree.tokens[below[0] if kind == "first child" else below[-1]]
    return target


def _children(tree: Tree) -> Sequence[Sequence[int]]:
    parent = parents_of_links(tree.next_token.tolist(), tree.next_sibling.tolist())
    return [[child for child, above in enumerate(parent) if above == node] for node in range(len(parent))]
