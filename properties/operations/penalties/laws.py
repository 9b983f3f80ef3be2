"""Laws of penalties: which tokens count for a node, and what becomes of their logits."""

from collections import Counter
from typing import Any

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, outputs_of, require_equal, require_one_by_one, states
from specsim.properties.strategies.limits import limits
from specsim.properties.strategies.trees import Tree, Trees
from specsim.topology import Topology

_OPERATION = "apply_penalties"
_STRENGTHS = ("frequency_penalty", "presence_penalty", "repetition_penalty")


def penalties_follow_what_counts(backend: Backend, case: Case) -> None:
    """A token that counts n times loses n times the frequency and once the presence penalty, and is then scaled."""
    expected = np.array(case["logits"].astype(np.float32))
    for row in range(len(expected)):
        request = row // case["num_draft_tokens"]
        frequency, presence, repetition = (case[name][request] for name in _STRENGTHS)
        for token, count in _counted(case, row).items():
            expected[row, token] = _penalised(expected[row, token], count, frequency, presence, repetition)
    require_equal("penalised_logits", outputs_of(backend, _OPERATION, case)["penalised_logits"], expected)


def exact_penalties_are_those_of_the_committed_path(backend: Backend, case: Case) -> None:
    """A node in exact mode is a root alone whose request has output the drafts of its path."""
    width, vocab = case["num_draft_tokens"], case["logits"].shape[1]
    num_rows = len(case["logits"])
    counts = np.zeros((num_rows, vocab), dtype=np.int32)
    for row in range(num_rows):
        for token, count in _counted({**case, "exact": True}, row).items():
            counts[row, token] = count
    committed = {
        **{name: np.repeat(case[name], width) for name in _STRENGTHS},
        "logits": case["logits"],
        "token_counts": counts,
        "draft_token": case["draft_token"],
        "tree_mask": np.ones(num_rows, dtype=np.bool_),
        "num_draft_tokens": 1,
        "exact": case["exact"],
    }
    got = outputs_of(backend, _OPERATION, {**case, "exact": True})["penalised_logits"]
    require_equal("penalised_logits in exact mode", got, outputs_of(backend, _OPERATION, committed)["penalised_logits"])


def relaxed_penalties_do_not_know_the_tree(backend: Backend, case: Case) -> None:
    """In relaxed mode a row depends neither on the drafts nor on who sees whom."""
    relaxed = {**case, "exact": False}
    other = {**relaxed, "draft_token": np.zeros_like(case["draft_token"]), "tree_mask": ~case["tree_mask"]}
    got, expected = (outputs_of(backend, _OPERATION, one)["penalised_logits"] for one in (relaxed, other))
    require_equal("penalised_logits in relaxed mode", got, expected)


def greedy_speculation_is_plain_decoding(backend: Backend, case: Case) -> None:
    """In exact mode a greedy verify outputs what plain decoding does that penalises one token after another."""
    width = case["num_draft_tokens"]
    exact = {**case, "exact": True}
    logits = outputs_of(backend, _OPERATION, exact)["penalised_logits"]
    predicted = outputs_of(backend, "argmax_target_predict", {"logits": logits})["target_predict"].reshape(-1, width)
    trees = [_tree_of(square) for square in case["tree_mask"].reshape(-1, width, width)]
    requests = [Tree(*one) for one in zip(trees, case["draft_token"].reshape(-1, width), strict=True)]
    links = Trees(requests, width, num_steps=width, others=requests).arguments()
    verified = outputs_of(backend, "verify_tree_greedy", {**links, "target_predict": predicted})
    is_tied = ((logits == logits.max(axis=1, keepdims=True)).sum(axis=1) > 1).reshape(-1, width).any(axis=1)
    for request, tree in enumerate(trees):
        if is_tied[request] and limits().ties_are_free:
            continue
        path = [node for node in verified["accept_index"][request].tolist() if node >= 0]
        got = verified["predict"][path].tolist()
        require_equal(f"output of request {request}", got, _decoded(exact, request, tree))


def requests_are_penalised_one_by_one(backend: Backend, case: Case) -> None:
    """A request's logits are the same alone, and in any order of the batch."""
    require_one_by_one(backend, _OPERATION, case, ["penalised_logits"])


def _penalised(logit: Any, count: int, frequency: Any, presence: Any, repetition: Any) -> Any:
    """Return the logit of a token that counts, in float32."""
    less = logit - frequency * np.float32(count) - presence
    return less * repetition if less < 0 else less / repetition


def _tree_of(square: Array) -> Topology:
    """Return the tree in which each node hangs from the last node before it that it sees."""
    parents = [max(np.flatnonzero(row[:node]).tolist(), default=-1) for node, row in enumerate(square)]
    return Topology.from_parents(parents)


def _decoded(case: Case, request: int, tree: Topology) -> list[int]:
    """Return what plain decoding outputs until no draft agrees, token after token with what counts by then."""
    width, node, output = case["num_draft_tokens"], 0, list[int]()
    drafts = case["draft_token"].reshape(-1, width)[request].tolist()
    strengths = [case[name][request] for name in _STRENGTHS]
    counted = Counter({token: count for token, count in enumerate(case["token_counts"][request].tolist()) if count})
    while True:
        logits = case["logits"][request * width + node].astype(np.float32)
        for token, count in counted.items():
            logits[token] = _penalised(logits[token], count, *strengths)
        output.append(int(np.argmax(logits)))
        counted[output[-1]] += 1
        agreeing = [child for child in tree.children[node] if drafts[child] == output[-1]]
        if not agreeing:
            return output
        node = agreeing[0]


def _counted(case: Case, row: int) -> Counter[int]:
    """Return how often each token counts for the node of a row."""
    width = case["num_draft_tokens"]
    request, node = divmod(row, width)
    counted = Counter({token: count for token, count in enumerate(case["token_counts"][request].tolist()) if count})
    if case["exact"]:
        sees = case["tree_mask"].reshape(-1, width, width)[request, node]
        drafts = case["draft_token"].reshape(-1, width)[request]
        counted.update(drafts[other] for other in np.flatnonzero(sees).tolist() if other)
    return counted


PROPERTIES = states(
    "penalties",
    (penalties_follow_what_counts, _OPERATION, "P14"),
    (exact_penalties_are_those_of_the_committed_path, _OPERATION, "P14"),
    (relaxed_penalties_do_not_know_the_tree, _OPERATION, "P14"),
    (greedy_speculation_is_plain_decoding, (_OPERATION, "argmax_target_predict", "verify_tree_greedy"), "P14"),
    (requests_are_penalised_one_by_one, _OPERATION, "P31"),
)
