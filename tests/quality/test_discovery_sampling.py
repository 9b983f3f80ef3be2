"""What the strategies of sampling must find."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specsim.contracts.chains import target_rows_read
from specsim.properties.laws.grammar import path_to, state_after
from specsim.properties.laws.support.decided import decide_chain, decide_tree
from specsim.properties.laws.verify import parents_of
from specsim.reference import target_probabilities, verify_tree_sampled_from_logits
from tests.quality.pool import calls_of

Case = dict[str, Any]

TREE = "tree_speculative_sampling_target_only"
CHAIN = "chain_speculative_sampling"
SAMPLED = "verify_tree_sampled_from_logits"
TARGET = "target_probabilities"


def walks(case: Case) -> list[tuple[int, Any]]:
    return [(request, decide_tree(case, request)) for request in range(len(case["candidates"]))]


def chains(case: Case) -> list[tuple[int, int, Any]]:
    counts = np.diff(case["cu_num_drafts"]).tolist()
    return [(request, count, decide_chain(case, request)) for request, count in enumerate(counts)]


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


def support(case: Case, *names: str) -> Any:
    """Return which tokens are kept by some of the filters alone."""
    off = {"top_k": 2**30, "top_p": 1, "min_p": 0}
    changed = {name: np.full_like(case[name], value) for name, value in off.items() if name not in names}
    return target_probabilities(**{**case, **changed}) > 0


def does_one_filter_decide(case: Case) -> bool:
    """Return whether another token comes out without top-k, without top-p and without min-p, each of a request."""
    (tokens, path, _), found = verify_tree_sampled_from_logits(**case), set[str]()
    for name, value in {"top_k": 2**30, "top_p": 1, "min_p": 0}.items():
        others, other_path, _ = verify_tree_sampled_from_logits(**{**case, name: np.full_like(case[name], value)})
        nodes = path[path >= 0]
        if (path != other_path).any() or (tokens[nodes] != others[nodes]).any():
            found.add(name)
    return len(found) == 3


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

OTHERS: dict[str, tuple[str, Callable[[Case], Any]]] = {
    "ragged chains, one without drafts": (
        CHAIN,
        lambda case: len({count for _, count, _ in chains(case)} | {0}) > 3 and 0 in np.diff(case["cu_num_drafts"]),
    ),
    "a sentinel after accepted drafts": (
        CHAIN,
        lambda case: any(
            1 < len(walk.tokens) <= count and case["draft_tokens"][case["cu_num_drafts"][r] + len(walk.tokens) - 1] < 0
            for r, count, walk in chains(case)
        ),
    ),
    "an impossible draft": (
        CHAIN,
        lambda case: (
            case["draft_probs"] is not None
            and any(
                (case["draft_probs"][place, token] == 0)
                for place, token in enumerate(case["draft_tokens"])
                if token >= 0
            )
        ),
    ),
    "no laws of drafts": (CHAIN, lambda case: case["draft_probs"] is None and len(case["draft_tokens"]) > 3),
    "a long chain accepted whole": (
        CHAIN,
        lambda case: any(len(walk.tokens) == count + 1 > 4 for _, count, walk in chains(case)),
    ),
    "a coin on the ratio": (
        CHAIN,
        lambda case: (
            case["draft_probs"] is not None
            and any(
                0
                < case["uniform_samples"][place] * case["draft_probs"][place, token]
                == case["target_probs"][place + r, token]
                for r, (first, last) in enumerate(
                    zip(case["cu_num_drafts"][:-1], case["cu_num_drafts"][1:], strict=True)
                )
                for place, token in zip(range(first, last), case["draft_tokens"][first:last], strict=True)
            )
        ),
    ),
    "ties at the count": (
        "top_k_renorm",
        lambda case: any(
            k < len(row) and np.sort(row)[::-1][k - 1] == np.sort(row)[::-1][k] > 0
            for row, k in zip(case["probabilities"], case["top_k"].tolist(), strict=True)
        ),
    ),
    "a mass equal to the share": (
        "top_p_renorm",
        lambda case: any(
            share < 1 and (np.cumsum(np.sort(row)[::-1]) == share * row.sum()).any()
            for row, share in zip(case["probabilities"], case["top_p"], strict=True)
        ),
    ),
    "an entry equal to its share of the largest": (
        "min_p_renorm",
        lambda case: any(
            0 < share < 1 and (row == share * row.max()).any()
            for row, share in zip(case["probabilities"], case["min_p"], strict=True)
        ),
    ),
    "a greedy request among others": (
        TARGET,
        lambda case: (case["temperature"] == 0).any() and (case["temperature"] > 0).any(),
    ),
    "all filters at once": (
        TARGET,
        lambda case: ((case["top_k"] < case["logits"].shape[1]) & (case["top_p"] < 1) & (case["min_p"] > 0)).any(),
    ),
    "filters whose order decides": (
        TARGET,
        lambda case: (
            support(case, "top_k", "top_p", "min_p")
            != (support(case, "top_k") & support(case, "top_p") & support(case, "min_p"))
        ).any(),
    ),
    "several largest logits at temperature 0": (
        TARGET,
        lambda case: any(
            (row == row.max()).sum() > 1
            for row, cold in zip(
                case["logits"].astype(np.float32),
                np.repeat(case["temperature"] == 0, case["num_draft_tokens"]),
                strict=True,
            )
            if cold
        ),
    ),
    "filters each of which decides": (SAMPLED, does_one_filter_decide),
    "a count right beyond the vocabulary": (
        "top_k_renorm",
        lambda case: any(
            count == len(row) + 1 and (row > 0).sum() > 2
            for row, count in zip(case["probabilities"], case["top_k"], strict=True)
        ),
    ),
    "several words and no mask": (
        "prepare_logits",
        lambda case: case["vocab_mask"] is None and case["logits"].shape[1] > 64 and len(case["logits"]) > 2,
    ),
    "logits in bfloat16": (TARGET, lambda case: case["logits"].dtype.name == "bfloat16" and len(case["logits"]) > 2),
    "forbidden tokens": (SAMPLED, lambda case: np.isneginf(case["logits"].astype(np.float32)).any()),
    "a sampled path of several nodes": (
        SAMPLED,
        lambda case: any((verify_tree_sampled_from_logits(**case)[2] > 2) & (case["temperature"] > 0)),
    ),
    "equal largest logits": (
        "verify_tree_greedy_from_logits",
        lambda case: any((row == row.max()).sum() > 1 for row in case["logits"].astype(np.float32)),
    ),
    "penalties with and without": (
        "prepare_logits",
        lambda case: (
            case["additive_penalty"] is not None
            and len({bool(row.any()) for row in case["additive_penalty"]}) > 1
            and case["logit_bias"] is None
        ),
    ),
    "equal seeds and different lengths": (
        "generate_coins",
        lambda case: len(case["seeds"]) > 1 and len(set(case["seeds"])) < len(set(case["seq_lens"])),
    ),
    "rows of NaN behind the last one that is read": (
        "chain_speculative_sampling",
        lambda case: np.isnan(case["target_probs"]).any() and (~np.isnan(case["target_probs"]).all(axis=1)).any(),
    ),
    "rows without mass that are not read": (
        "chain_speculative_sampling",
        lambda case: (~target_rows_read(case) & (case["target_probs"].sum(axis=1) == 0)).any(),
    ),
    "a draft's law that is none where it is not read": (
        "chain_speculative_sampling",
        lambda case: case["draft_probs"] is not None and (case["draft_probs"] < 0).any(),
    ),
    "a mask that lacks the end": (
        "verify_custom_mask_metadata",
        lambda case: 0 < len(case["tree_mask"]) < case["num_draft_tokens"] * case["seq_lens"].sum(),
    ),
    "a length of 0 beside others": (
        "verify_cascade_metadata",
        lambda case: 0 in case["seq_lens"][1:] and any(case["seq_lens"]),
    ),
}


def states(case: Case) -> list[tuple[int, int, int, int]]:
    """Return (request, node, depth, state after the path) of the requests with a grammar."""
    found = []
    for request, first in enumerate(case["grammar_state"].tolist()):
        if first >= 0:
            parents, tokens = parents_of(case, request), case["candidates"][request].tolist()
            for node in range(len(parents)):
                path = path_to(parents, node)
                found.append((request, node, len(path), state_after(case, first, path, tokens)))
    return found


GRAMMARS: dict[str, Callable[[Case], Any]] = {
    "a text that is complete below the root": lambda case: any(
        length > 1 and state >= 0 and case["is_terminated"][state] for _, _, length, state in states(case)
    ),
    "a deep node that is reached": lambda case: any(length > 20 and state >= 0 for _, _, length, state in states(case)),
    "a sibling after a rejected one that is reached": lambda case: any(
        state >= 0
        and any(
            r == request and n < node and s < 0 and parents_of(case, r)[n] == parents_of(case, r)[node]
            for r, n, _, s in states(case)
        )
        for request, node, length, state in states(case)
        if length == 1
    ),
    "a token beyond the vocabulary": lambda case: (
        (case["candidates"] >= case["transitions"].shape[1]).any() and (case["grammar_state"] >= 0).any()
    ),
    "requests with and without a grammar": lambda case: (
        (case["grammar_state"] < 0).any() and (case["grammar_state"] >= 0).any()
    ),
    "a second word": lambda case: case["transitions"].shape[1] > 32 and (case["grammar_state"] >= 0).any(),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_contain(name: str) -> None:
    assert calls_of(TREE).first(TREES[name])


@pytest.mark.parametrize("name", OTHERS)
def test_calls_contain(name: str) -> None:
    operation, predicate = OTHERS[name]
    assert calls_of(operation).first(predicate)


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars_contain(name: str) -> None:
    assert calls_of("generate_token_bitmask").first(GRAMMARS[name])
