"""Laws of penalties: which tokens count for a node, and what becomes of their logits."""

from collections import Counter

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.support.checks import (
    Case,
    arrangements,
    outputs_of,
    require_equal,
    state,
    take_blocks,
    take_requests,
)
from specsim.properties.strategies import penalties as strategies

_OPERATION = "apply_penalties"
_BY_REQUEST = ("logits", "token_counts", "draft_token", "tree_mask")
_STRENGTHS = ("frequency_penalty", "presence_penalty", "repetition_penalty")
_ONE = np.float32(1)


def penalties_follow_what_counts(backend: Backend, case: Case) -> None:
    """A token that counts n times loses n times the frequency and once the presence penalty, and is then scaled."""
    expected = np.array(case["logits"].astype(np.float32))
    for row in range(len(expected)):
        request = row // case["num_draft_tokens"]
        frequency, presence, repetition = (case[name][request] for name in _STRENGTHS)
        for token, count in _counted(case, row).items():
            logit = expected[row, token] - frequency * np.float32(count) - presence
            expected[row, token] = logit * repetition if logit < 0 else logit / repetition
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
    alone = outputs_of(backend, _OPERATION, committed)["penalised_logits"]
    require_equal("penalised_logits in exact mode", got, alone)


def relaxed_penalties_do_not_know_the_tree(backend: Backend, case: Case) -> None:
    """In relaxed mode a row depends neither on the drafts nor on who sees whom."""
    relaxed = {**case, "exact": False}
    other = {**relaxed, "draft_token": np.zeros_like(case["draft_token"]), "tree_mask": ~case["tree_mask"]}
    got, expected = (outputs_of(backend, _OPERATION, one)["penalised_logits"] for one in (relaxed, other))
    require_equal("penalised_logits in relaxed mode", got, expected)


def requests_are_penalised_one_by_one(backend: Backend, case: Case) -> None:
    """A request's logits are the same alone, and in any order of the batch."""
    num_requests = len(case["token_counts"])
    whole = outputs_of(backend, _OPERATION, case)["penalised_logits"]
    for requests in arrangements(num_requests):
        part = take_requests(case, (*_BY_REQUEST, *_STRENGTHS), num_requests, requests)
        got = outputs_of(backend, _OPERATION, part)["penalised_logits"]
        require_equal(f"penalised_logits of batch {requests}", got, take_blocks(whole, num_requests, requests))


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


_APPLY = (_OPERATION,)

PROPERTIES = (
    state("penalties", penalties_follow_what_counts, strategies.apply_penalties, _APPLY, "P14"),
    state("penalties", exact_penalties_are_those_of_the_committed_path, strategies.apply_penalties, _APPLY, "P14"),
    state("penalties", relaxed_penalties_do_not_know_the_tree, strategies.apply_penalties, _APPLY, "P14"),
    state("penalties", requests_are_penalised_one_by_one, strategies.apply_penalties, _APPLY, "P31"),
)
