"""Cases of ragged chains, from probabilities or from logits, as laws take them: parts, paddings, and rows of each."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from specsim.properties.laws.checks import Array, Case

FINAL = "uniform_samples_for_final_sampling"
_OF_DRAFTS = ("draft_tokens", "uniform_samples", "draft_probs", "draft_logits")
_OF_ROWS = ("target_probs", "target_logits", "target_predict")
_OF_REQUESTS = (FINAL, "temperature", "top_k", "top_p", "min_p", "draft_temperature")
"""Arguments of ragged chains with an entry a draft, with one more a request, and with one a request."""


def sides_of(case: Case) -> tuple[str, str]:
    """Return the names of the rows of the target and of the drafts."""
    return ("target_logits", "draft_logits") if "target_logits" in case else ("target_probs", "draft_probs")


def rows_of(case: Case) -> list[tuple[int, int]]:
    """Return where each request's drafts start and end."""
    return list(pairwise(case["cu_num_drafts"].tolist()))


def owners_of(case: Case) -> Array:
    """Return the request of every draft."""
    return np.repeat(np.arange(len(case["cu_num_drafts"]) - 1), np.diff(case["cu_num_drafts"]))


def rows_of_drafts(case: Case) -> Array:
    """Return the row of the target that judges each draft."""
    owner = owners_of(case)
    return np.arange(len(owner)) + owner


def taken(case: Case, requests: Sequence[int], ends: Sequence[int] | None = None) -> Case:
    """Return the case with only some requests, in the order given; ``ends`` is where the drafts of each end earlier."""
    bounds = [rows_of(case)[request] for request in requests]
    if ends is not None:
        bounds = [(first, end) for (first, _), end in zip(bounds, ends, strict=True)]
    none = np.zeros(0, dtype=np.int64)
    drafts = np.concatenate([none, *(np.arange(first, last) for first, last in bounds)])
    pairs = zip(requests, bounds, strict=True)
    rows = np.concatenate([none, *(np.arange(first + r, last + r + 1) for r, (first, last) in pairs)])
    places = {
        **dict.fromkeys(_OF_DRAFTS, drafts),
        **dict.fromkeys(_OF_ROWS, rows),
        **dict.fromkeys(_OF_REQUESTS, np.array(requests, dtype=np.int64)),
    }
    chosen = {name: case[name][at] for name, at in places.items() if case.get(name) is not None}
    offsets = np.cumsum([0, *(last - first for first, last in bounds)]).astype(np.int32)
    return {**case, **chosen, "cu_num_drafts": offsets}


def padded(case: Case, count: int) -> Case:
    """Return the case with sentinels after each draft; beside them, the target's rows, or equal logits of the draft."""
    offsets, (target, draft) = case["cu_num_drafts"], sides_of(case)
    request = np.arange(len(offsets), dtype=np.int32)
    ends = np.repeat(offsets[1:], count)
    last_rows = np.repeat(offsets[1:] + request[1:], count)
    beside = case[target][last_rows - 1]
    rows = case[draft]
    if rows is not None:
        is_logits = draft == "draft_logits"
        rows = np.insert(rows, ends, np.zeros((len(ends), rows.shape[1])) if is_logits else beside, axis=0)
    return {
        **case,
        "draft_tokens": np.insert(case["draft_tokens"], ends, -1),
        "cu_num_drafts": offsets + request * np.int32(count),
        "uniform_samples": np.insert(case["uniform_samples"], ends, 0),
        draft: rows,
        target: np.insert(case[target], last_rows, beside[:, ::-1], axis=0),
        "max_num_drafts": case["max_num_drafts"] + count,
    }


def with_copies(case: Case) -> Case:
    """Return the case with arrays of its own."""
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in case.items()}
