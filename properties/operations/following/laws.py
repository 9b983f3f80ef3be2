"""Laws of what follows the output: what a node forbids, and what a row knows once tokens are committed."""

from collections import Counter

import numpy as np

from specsim.conformance.backend import Backend
from specsim.host.grammar import is_allowed
from specsim.properties.laws.checks import (
    Array,
    Case,
    arrangements,
    batch_of,
    outputs_of,
    require_equal,
    require_one_by_one,
    states,
)

_FORBID, _COMMIT = "forbid_tokens", "commit_output_tokens"
_WRITTEN = ("token_counts", "num_output_tokens", "recent_tokens")


def tokens_are_forbidden_by_what_lies_before_them(backend: Backend, case: Case) -> None:
    """After a node a stop is forbidden while the text is short, and so is a token with which it ends in a bad word."""
    vocab, width = case["vocab_size"], case["num_draft_tokens"]
    for row, mask in enumerate(outputs_of(backend, _FORBID, case)["vocab_mask"]):
        request = row // width
        path = _path(case, row)
        known = [token for token in case["recent_tokens"][request].tolist() if token >= 0]
        words = [[token for token in word if token >= 0] for word in case["bad_words"][request].tolist()]
        is_short = case["num_output_tokens"][request] + len(path) < case["min_tokens"][request]
        got = [is_allowed(mask, token) for token in range(vocab)]
        expected = [
            not (is_short and is_allowed(case["stop_mask"][request], token))
            and not any(word and [*known, *path, token][-len(word) :] == word for word in words)
            for token in range(vocab)
        ]
        require_equal(f"tokens allowed after node {row}", got, expected)
        beyond = [is_allowed(mask, token) for token in range(vocab, 32 * len(mask))]
        require_equal(f"bits past the vocabulary of node {row}", beyond, [True] * len(beyond))


def nodes_are_roots_of_committed_paths(backend: Backend, case: Case) -> None:
    """A node forbids what the root alone does once the drafts of its path are committed."""
    width, vocab = case["num_draft_tokens"], case["vocab_size"]
    for row, mask in enumerate(outputs_of(backend, _FORBID, case)["vocab_mask"]):
        request = row // width
        path = np.array([[*_path(case, row)]], dtype=np.int32)
        own = slice(request, request + 1)
        known = {
            "token_counts": np.zeros((2, vocab), dtype=np.int32),
            "num_output_tokens": np.concatenate([[0], case["num_output_tokens"][own]]).astype(np.int32),
            "recent_tokens": np.concatenate([case["recent_tokens"][own]] * 2),
        }
        if path.size:
            asked = {"req_pool_indices": np.ones(1, dtype=np.int64), "counts_all": np.ones(1, dtype=np.bool_)}
            asked |= {"accept_index": np.arange(path.size, dtype=np.int32)[None], "predict": path[0]}
            known = outputs_of(backend, _COMMIT, {**known, **asked})
        alone = {
            **{name: case[name][own] for name in ("min_tokens", "stop_mask", "bad_words")},
            "num_output_tokens": known["num_output_tokens"][1:],
            "recent_tokens": known["recent_tokens"][1:],
            "draft_token": np.zeros(1, dtype=np.int64),
            "tree_mask": np.ones(1, dtype=np.bool_),
            "num_draft_tokens": 1,
            "vocab_size": vocab,
        }
        require_equal(f"mask of node {row}", mask, outputs_of(backend, _FORBID, alone)["vocab_mask"][0])


def masks_are_made_one_by_one(backend: Backend, case: Case) -> None:
    """A request's masks are the same alone, and in any order of the batch."""
    require_one_by_one(backend, _FORBID, case, ["vocab_mask"])


def rows_know_what_was_committed(backend: Backend, case: Case) -> None:
    """A row counts the tokens of its request's path, or the last of them, and knows the last ones; others stay."""
    got = outputs_of(backend, _COMMIT, case)
    counts, lengths, recent = (case[name].copy() for name in _WRITTEN)
    for row, path, counts_all in zip(case["req_pool_indices"], case["accept_index"], case["counts_all"], strict=True):
        tokens = [int(case["predict"][node]) for node in path if node >= 0]
        if not row:
            continue
        for token, count in Counter(tokens if counts_all else tokens[-1:]).items():
            counts[row, token] += count
        lengths[row] += len(tokens)
        recent[row] = [*recent[row], *tokens][len(tokens) :]
    for name, expected in zip(_WRITTEN, (counts, lengths, recent), strict=True):
        require_equal(name, got[name], expected)


def committing_token_by_token_is_the_same(backend: Backend, case: Case) -> None:
    """What a row knows does not depend on how its tokens were cut into verifies, where all of them count."""
    everything = {**case, "counts_all": np.ones_like(case["counts_all"])}
    at_once, known = outputs_of(backend, _COMMIT, everything), everything
    for place in range(case["accept_index"].shape[1]):
        nodes = case["accept_index"][:, place]
        rows = np.where(nodes >= 0, case["req_pool_indices"], 0)
        tokens = np.where(nodes >= 0, case["predict"][np.maximum(nodes, 0)], 0) if len(case["predict"]) else nodes
        accept_index = np.where(nodes >= 0, np.arange(len(nodes)), -1).astype(np.int32)[:, None]
        one = {**known, "req_pool_indices": rows, "accept_index": accept_index, "predict": tokens.astype(np.int32)}
        known = {**known, **outputs_of(backend, _COMMIT, one)}
    for name in _WRITTEN:
        require_equal(name, known[name], at_once[name])


def requests_commit_one_by_one(backend: Backend, case: Case) -> None:
    """What is committed of a request does not depend on the others of its batch, nor on their order."""
    whole = outputs_of(backend, _COMMIT, case)
    for requests in arrangements(len(case["req_pool_indices"])):
        part = batch_of(_COMMIT, case, requests)
        got = outputs_of(backend, _COMMIT, part)
        rows = np.setdiff1d(part["req_pool_indices"], [0])
        for name in _WRITTEN:
            require_equal(f"{name} of batch {requests}", got[name][rows], whole[name][rows])


def _path(case: Case, row: int) -> list[int]:
    """Return the drafts that the node of a row sees, itself included."""
    width = case["num_draft_tokens"]
    request, node = divmod(row, width)
    sees: Array = case["tree_mask"].reshape(-1, width, width)[request, node]
    drafts = case["draft_token"].reshape(-1, width)[request]
    return [int(drafts[other]) for other in range(1, width) if sees[other]]


PROPERTIES = states(
    "following",
    (tokens_are_forbidden_by_what_lies_before_them, _FORBID, "P14"),
    (nodes_are_roots_of_committed_paths, (_FORBID, _COMMIT), "P14"),
    (masks_are_made_one_by_one, _FORBID, "P31"),
    (rows_know_what_was_committed, _COMMIT, "P15"),
    (committing_token_by_token_is_the_same, _COMMIT, "P15"),
    (requests_commit_one_by_one, _COMMIT, "P31"),
)
