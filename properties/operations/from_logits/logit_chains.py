"""Chains from raw logits as laws take them: the laws of their rows, and parts, paddings and warmer ones of a batch."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, outputs_of

CHAIN_FROM_LOGITS = "chain_speculative_sampling_from_logits"
BLOCK_FROM_LOGITS = "chain_block_verification_from_logits"
FINAL = "uniform_samples_for_final_sampling"
_OF_REQUEST = (FINAL, "temperature", "top_k", "top_p", "min_p", "draft_temperature")


def target_laws(backend: Backend, case: Case) -> Array:
    """Return the distribution of every row of the target."""
    owner = np.repeat(np.arange(len(case["temperature"])), counts_of(case) + 1)
    return _laws(
        backend,
        case["target_logits"],
        case["temperature"][owner],
        *(None if case[name] is None else case[name][owner] for name in ("top_k", "top_p", "min_p")),
    )


def draft_laws(backend: Backend, case: Case) -> Array:
    """Return the law of every draft over the target's vocabulary; it is certain where either side is greedy."""
    vocab, owner = case["target_logits"].shape[1], owners_of(case)
    laws = _laws(backend, case["draft_logits"], case["draft_temperature"][owner])
    aligned = np.zeros((len(laws), vocab), dtype=np.float32)
    aligned[:, : laws.shape[1]] = laws[:, :vocab]
    is_certain = (case["draft_temperature"][owner] == 0) | (case["temperature"][owner] == 0)
    certain = np.asarray(np.arange(vocab) == case["draft_tokens"][:, None]).astype(np.float32)
    return np.where(is_certain[:, None], certain, aligned)


def _laws(
    backend: Backend,
    logits: Array,
    temperature: Array,
    top_k: Array | None = None,
    top_p: Array | None = None,
    min_p: Array | None = None,
) -> Array:
    count = len(logits)
    arguments = {
        "logits": logits,
        "temperature": temperature,
        "top_k": np.full(count, 2**30, dtype=np.int32) if top_k is None else top_k,
        "top_p": np.ones(count, dtype=np.float32) if top_p is None else top_p,
        "min_p": np.zeros(count, dtype=np.float32) if min_p is None else min_p,
        "num_draft_tokens": 1,
    }
    return np.asarray(outputs_of(backend, "target_probabilities", arguments)["target_probs"])


def rows_of(case: Case) -> list[tuple[int, int]]:
    """Return where each request's drafts start and end."""
    return list(pairwise(case["cu_num_drafts"].tolist()))


def counts_of(case: Case) -> Array:
    """Return how many drafts each request has."""
    return np.diff(case["cu_num_drafts"])


def owners_of(case: Case) -> Array:
    """Return the request of every draft."""
    return np.repeat(np.arange(len(case["temperature"])), counts_of(case))


def taken(case: Case, requests: Sequence[int]) -> Case:
    """Return the case with only some requests, in the order given."""
    bounds = [rows_of(case)[request] for request in requests]
    drafts = np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(first, last) for first, last in bounds)])
    rows = [np.arange(first + r, last + r + 1) for r, (first, last) in zip(requests, bounds, strict=True)]
    part = {
        **case,
        "draft_tokens": case["draft_tokens"][drafts],
        "cu_num_drafts": np.cumsum([0, *(last - first for first, last in bounds)]).astype(np.int32),
        "uniform_samples": case["uniform_samples"][drafts],
        "draft_logits": None if case["draft_logits"] is None else case["draft_logits"][drafts],
        "target_logits": case["target_logits"][np.concatenate([np.zeros(0, dtype=np.int64), *rows])],
    }
    for name in _OF_REQUEST:
        part[name] = None if case[name] is None else case[name][list(requests)]
    return part


def padded(case: Case, count: int) -> Case:
    """Return the case with sentinels after each draft; beside them, the target's rows in reverse."""
    offsets = case["cu_num_drafts"]
    request = np.arange(len(offsets), dtype=np.int32)
    ends = np.repeat(offsets[1:], count)
    last_rows = np.repeat(offsets[1:] + request[1:], count)
    draft_logits = case["draft_logits"]
    if draft_logits is not None:
        beside = np.zeros((len(ends), draft_logits.shape[1]), dtype=draft_logits.dtype)
        draft_logits = np.insert(draft_logits, ends, beside, axis=0)
    return {
        **case,
        "draft_tokens": np.insert(case["draft_tokens"], ends, -1),
        "cu_num_drafts": offsets + request * np.int32(count),
        "uniform_samples": np.insert(case["uniform_samples"], ends, 0),
        "draft_logits": draft_logits,
        "target_logits": np.insert(
            case["target_logits"], last_rows, case["target_logits"][last_rows - 1][:, ::-1], axis=0
        ),
        "max_num_drafts": case["max_num_drafts"] + count,
    }


def depths_of(logits: Array) -> Array:
    """Return how far each logit lies below the largest of its row; infinitely, or NaN, for none."""
    values = logits.astype(np.float64)
    return np.asarray(values.max(axis=1, keepdims=True) - values)


def warmed(case: Case) -> Case:
    """Return the case with temperatures of 1 for those of 0."""
    names = ("temperature", "draft_temperature")
    return {**case, **{name: np.where(case[name] == 0, np.float32(1), case[name]) for name in names}}
