"""The laws' own reading of links and parents: deliberately a second one, sharing nothing with ``specsim.topology``.

The reference, the strategies and the pictures all stand on that one tree; a fault in it would be theirs together, and
only laws that read links for themselves could see it.
"""

from collections.abc import Sequence

import numpy as np

from specsim.assertion import require
from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Case, arrangements, batch_of, block, local_path, outputs_of, require_equal
from specsim.properties.strategies.arrays import Array
from specsim.properties.strategies.limits import limits


def children_by_links(next_token: Array, next_sibling: Array) -> list[list[int]]:
    """Follow child and sibling links from the root and return each node's children in the order of the links.

    Raises
    ------
    AssertionError
        The links do not visit every node exactly once.
    """
    num_nodes = len(next_token)
    children: list[list[int]] = [[] for _ in range(num_nodes)]
    visited = {0}
    waiting = [0]
    while waiting:
        parent = waiting.pop()
        child = int(next_token[parent])
        while child != -1:
            require(0 < child < num_nodes, f"a child of node {parent}", child, f"1 to {num_nodes - 1}")
            require(child not in visited, "the number of visits to a node", f"2 for {child}", 1)
            visited.add(child)
            children[parent].append(child)
            waiting.append(child)
            child = int(next_sibling[child])
    require(len(visited) == num_nodes, "the nodes that the links visit", sorted(visited), f"all of {num_nodes}")
    return children


def parents_by_links(next_token: Array, next_sibling: Array) -> list[int]:
    """Follow the links likewise and return each node's parent, -1 for the root."""
    parents = [-1] * len(next_token)
    for parent, below in enumerate(children_by_links(next_token, next_sibling)):
        for child in below:
            parents[child] = parent
    return parents


def depths_of(parents: list[int]) -> list[int]:
    """Count the steps from each node to the root."""
    depths: list[int] = (closure_of(parents).sum(axis=1) - 1).tolist()
    return depths


def closure_of(parents: list[int]) -> Array:
    """Return the matrix of who is an ancestor of whom, everybody of itself included."""
    closure = np.zeros((len(parents), len(parents)), dtype=np.bool_)
    for node in range(len(parents)):
        ancestor, steps = node, 0
        while ancestor >= 0 and steps <= len(parents):
            closure[node, ancestor] = True
            ancestor, steps = parents[ancestor], steps + 1
    return closure


def parents_of(case: Case, request: int) -> list[int]:
    """Return each node's parent in a request of the case."""
    return parents_by_links(case["retrieve_next_token"][request], case["retrieve_next_sibling"][request])


def children_of(case: Case, request: int) -> list[list[int]]:
    """Return each node's children in a request of the case, in the order in which they are tried."""
    return children_by_links(case["retrieve_next_token"][request], case["retrieve_next_sibling"][request])


def links_of_chains(candidates: Array) -> Case:
    """Return trees without branches, a row of tokens each, with the links and numbers of their nodes."""
    num_requests, num_nodes = candidates.shape
    return {
        "candidates": candidates,
        "retrieve_index": np.arange(candidates.size, dtype=np.int64).reshape(candidates.shape),
        "retrieve_next_token": np.tile(np.array([*range(1, num_nodes), -1], dtype=np.int64), (num_requests, 1)),
        "retrieve_next_sibling": np.full(candidates.shape, -1, dtype=np.int64),
    }


def walked(case: Case, outputs: Case, request: int) -> tuple[list[int], Array]:
    """Return the accepted nodes of a request, numbered within it, and its output tokens."""
    path = local_path(outputs["accept_index"], request, case["candidates"].shape[1])
    return path, block(outputs["predict"], len(case["candidates"]), request)[path]


def require_walked_one_by_one(
    backend: Backend, operation: str, case: Case, compared: Sequence[int] | None = None
) -> None:
    """Raise AssertionError unless a tree has the same path and output alone, and in any order of the batch.

    ``compared`` are the requests that are compared; None for all of them.
    """
    whole = outputs_of(backend, operation, case)
    for requests in arrangements(len(case["candidates"])):
        part = batch_of(operation, case, requests)
        got = outputs_of(backend, operation, part)
        for place, request in enumerate(requests):
            if compared is None or request in compared:
                alone, among = walked(part, got, place), walked(case, whole, request)
                what = f"of request {request} in batch {requests}"
                require_equal(f"the path {what}", alone[0], among[0])
                require_equal(f"the output {what}", alone[1], among[1])
                drafts = (outputs["num_accepted_drafts"][at] for outputs, at in ((got, place), (whole, request)))
                require_equal(f"the drafts {what}", *drafts)
                if "draft_probs" in whole and limits().writes_scratch:
                    require_equal("draft_probs", got["draft_probs"][place], whole["draft_probs"][request])
