"""Chains from raw logits as laws take them: the laws of their rows, and warmer ones of a batch."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, outputs_of
from specsim.properties.operations.acceptance.chains import owners_of
from specsim.properties.strategies.filters import Filters, filters_of

CHAIN_FROM_LOGITS = "chain_speculative_sampling_from_logits"
BLOCK_FROM_LOGITS = "chain_block_verification_from_logits"


def target_laws(backend: Backend, case: Case) -> Array:
    """Return the distribution of every row of the target."""
    owner = owners_of_rows(case)
    filters = {name: case[name][owner] for name in ("top_k", "top_p", "min_p") if case[name] is not None}
    return _laws(backend, case["target_logits"], case["temperature"][owner], **filters)


def draft_laws(backend: Backend, case: Case) -> Array:
    """Return the law of every draft over the target's vocabulary; it is certain where either side is greedy."""
    vocab, owner = case["target_logits"].shape[1], owners_of(case)
    laws = _laws(backend, case["draft_logits"], case["draft_temperature"][owner])
    aligned = np.zeros((len(laws), vocab), dtype=np.float32)
    aligned[:, : laws.shape[1]] = laws[:, :vocab]
    is_certain = (case["draft_temperature"][owner] == 0) | (case["temperature"][owner] == 0)
    certain = np.asarray(np.arange(vocab) == case["draft_tokens"][:, None]).astype(np.float32)
    return np.where(is_certain[:, None], certain, aligned)


def _laws(backend: Backend, logits: Array, temperature: Array, **filters: Array) -> Array:
    unfiltered = filters_of([Filters(1.0, 2**30, 1.0, 0.0)] * len(logits))
    arguments = {"logits": logits, **unfiltered, "temperature": temperature, **filters, "num_draft_tokens": 1}
    return np.asarray(outputs_of(backend, "target_probabilities", arguments)["target_probs"])


def owners_of_rows(case: Case) -> Array:
    """Return the request of every row of the target."""
    return np.repeat(np.arange(len(case["temperature"])), np.diff(case["cu_num_drafts"]) + 1)


def depths_of(logits: Array) -> Array:
    """Return how far each logit lies below the largest of its row; infinitely, or NaN, for none."""
    values = logits.astype(np.float64)
    return np.asarray(values.max(axis=1, keepdims=True) - values)


def warmed(case: Case) -> Case:
    """Return the case with temperatures of 1 for those of 0."""
    names = ("temperature", "draft_temperature")
    return {**case, **{name: np.where(case[name] == 0, np.float32(1), case[name]) for name in names}}
