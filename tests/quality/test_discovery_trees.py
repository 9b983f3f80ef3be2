"""What the strategies of the tree sampler must find."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specsim.properties.laws.links import parents_of
from specsim.properties.operations.acceptance.decided import decide_tree
from specsim.properties.operations.grammar.laws import path_to
from tests.quality.pool import calls_of

Case = dict[str, Any]

TREE = "tree_speculative_sampling_target_only"


def walks(case: Case) -> list[tuple[int, Any]]:
    return [(request, decide_tree(case, request)) for request in range(len(case["candidates"]))]


def masses(case: Case, request: int) -> list[tuple[float, float]]:
    """Return (coin, running mass) of the first children of every node."""
    parents, row = parents_of(case, request), case["target_probs"][request]
    pairs = []
    for node in range(len(parents)):
        tokens = case["candidates"][request, [child for child, parent in enumerate(parents) if parent == node]]
        pairs += [(float(case["uniform_samples"][request, node]), float(m)) for m in np.cumsum(row[node, tokens])]
    return pairs


def has_rejected_twins(case: Case) -> bool:
    for request, walk in walks(case):
        parents, tokens = parents_of(case, request), case["candidates"][request]
        for node, token in walk.rejected:
            if sum(parents[k] == node and tokens[k] == token for k in range(1, len(parents))) > 1:
                return True
    return False


def depth(case: Case, request: int) -> int:
    parents = parents_of(case, request)
    return max(len(path_to(parents, node)) for node in range(len(parents)))


def is_left_empty(case: Case) -> bool:
    for request, walk in walks(case):
        rest = case["target_probs"][request, walk.path[-1]].copy()
        rest[[token for node, token in walk.rejected if node == walk.path[-1]]] = 0
        if not rest.any() and len(walk.path) <= case["num_steps"]:
            return True
    return False


def decides(case: Case, **changed: Any) -> bool:
    """Return whether a request comes to another end with some arguments changed."""
    other = {**case, **changed}
    return any(decide_tree(other, r).tokens != walk.tokens for r, walk in walks(case) if walk.is_exact)


TREES: dict[str, Callable[[Case], Any]] = {
    "a chance at the single threshold that decides": lambda case: decides(
        case, threshold_single=np.nextafter(case["threshold_single"], np.float32(2))
    ),
    "two thresholds of which each decides in its place": lambda case: decides(
        case, threshold_single=case["threshold_acc"], threshold_acc=case["threshold_single"]
    ),
    "equal siblings whose mass decides": lambda case: decides(case, skip_duplicates=not case["skip_duplicates"]),
    "a rule that decides": lambda case: decides(case, strict=not case["strict"]),
    "no chance at a single threshold of 0": lambda case: (
        not case["strict"]
        and decides(case, strict=True)
        and decides(case, threshold_single=np.nextafter(case["threshold_single"], np.float32(2)))
    ),
    "more than one request on trial": lambda case: (
        sum(len(walk.path) > 1 for _, walk in walks(case)) > 2 and len(set(case["threshold_acc"].tolist())) > 1
    ),
    "a coin equal to a mass": lambda case: any(
        coin == mass > 0 for r in range(len(case["candidates"])) for coin, mass in masses(case, r)
    ),
    "a coin right below a mass": lambda case: any(
        np.nextafter(np.float32(coin), np.float32(2)) == np.float32(mass)
        for r in range(len(case["candidates"]))
        for coin, mass in masses(case, r)
    ),
    "a coin of 0 before an impossible child": lambda case: any(
        coin == mass == 0 for r in range(len(case["candidates"])) for coin, mass in masses(case, r)
    ),
    "the largest coin": lambda case: (case["uniform_samples"] == 1 - 2.0**-24).any(),
    "a rest without mass": is_left_empty,
    "equal siblings rejected": has_rejected_twins,
    "a full path of several nodes": lambda case: any(
        len(walk.path) == case["num_steps"] + 1 > 3 for _, walk in walks(case)
    ),
    "a path cut by the row width": lambda case: any(
        len(walk.path) == case["num_steps"] + 1 <= depth(case, request) for request, walk in walks(case)
    ),
    "several rejected at one node": lambda case: any(len(walk.rejected) > 3 for _, walk in walks(case)),
    "more than 32 rejected at one node": lambda case: any(len(walk.rejected) > 32 for _, walk in walks(case)),
    "nothing accepted of several": lambda case: any(
        len(walk.path) == 1 and case["candidates"].shape[1] > 3 for _, walk in walks(case)
    ),
    "thresholds that differ among requests": lambda case: len(set(case["threshold_single"].tolist())) > 1,
    "the older rule": lambda case: not case["strict"] and len(case["candidates"]) > 1,
    "upstream siblings": lambda case: not case["skip_duplicates"] and has_rejected_twins(case),
    "an empty batch": lambda case: len(case["candidates"]) == 0,
    "a lone root": lambda case: case["candidates"].shape[1] == 1 and len(case["candidates"]) > 1,
    "a vocabulary of more than a thousand": lambda case: (
        case["target_probs"].shape[2] > 1000 and case["candidates"].size > 2
    ),
    "one token": lambda case: case["target_probs"].shape[2] == 1 and case["candidates"].size > 2,
    "rows that add up to less than 1": lambda case: (case["target_probs"].sum(axis=2) <= 0.6).any(),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_contain(name: str) -> None:
    assert calls_of(TREE).first(TREES[name])
