"""Faults in the heads of the models."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, returning, with_arguments, with_outputs

Array = Any


def _last_layer_ignored(arguments: Named) -> None:
    states = arguments["hidden_states"].copy()
    states[:, -2] = 0
    arguments["hidden_states"] = states


def _second_best_first(outputs: Named, arguments: Named) -> None:
    outputs["probabilities"] = -np.sort(-outputs["probabilities"], axis=1)


def _least_logit_uncapped(outputs: Named, arguments: Named) -> None:
    logits = outputs["logits"]
    least = logits.min(axis=1, initial=0.0, keepdims=True)
    order = np.cumsum(logits == least, axis=1)
    outputs["logits"] = np.where(logits == least, least - (order - 1), logits).astype(np.float32)


def _hostile_to_none(arguments: Named) -> None:
    arguments["agreement"] = max(arguments["agreement"], 0)


def _never_sure(arguments: Named) -> None:
    arguments["agreement"] = min(arguments["agreement"], 2**30)


def _coarse(outputs: Named, arguments: Named) -> None:
    outputs["probabilities"] = np.floor(outputs["probabilities"] * 64).astype(np.float32) / np.float32(64)


def _cache_ignored(arguments: Named) -> None:
    arguments["context"] = np.zeros_like(arguments["context"])


def _shortest_context_first(arguments: Named) -> None:
    arguments["ngram_counts"] = arguments["ngram_counts"][::-1].copy()


def _hashed_bits_above(outputs: Named, arguments: Named) -> None:
    outputs["logits"] = outputs["logits"] ^ ((outputs["logits"] & 0xFF) << 8)


def _unnormalized(outputs: Named, arguments: Named) -> None:
    outputs["probabilities"] = outputs["probabilities"] * np.float32(2)


_LOGITS = "hash_target_logits"
_DRAFT = "hash_draft_probabilities"
_TEXT = "text_target_logits"
_TEXT_DRAFT = "text_draft_probabilities"

MUTANTS = (
    Mutant("OWN-111", _LOGITS, "Token ids do not break ties.", with_outputs(logits=lambda logits: logits >> 10 << 10)),
    Mutant("OWN-112", _LOGITS, "The last layer's fold is ignored.", given(_last_layer_ignored)),
    Mutant("OWN-113", _LOGITS, "The seed is ignored.", with_arguments(seed=0)),
    Mutant("OWN-114", _DRAFT, "Probabilities come sorted, not by token.", returning(_second_best_first)),
    Mutant("OWN-115", _DRAFT, "A hostile draft is a random one.", given(_hostile_to_none)),
    Mutant("OWN-116", _DRAFT, "A perfect draft is right now and then.", given(_never_sure)),
    Mutant("OWN-117", _DRAFT, "Probabilities are coarse.", returning(_coarse)),
    Mutant("OWN-118", _DRAFT, "The draft cache plays no part.", given(_cache_ignored)),
    Mutant("OWN-119", _TEXT, "The shortest context weighs most.", given(_shortest_context_first)),
    Mutant("OWN-120", _TEXT, "Ties are not broken.", with_outputs(logits=lambda logits: logits >> 8 << 8)),
    Mutant("OWN-121", _TEXT, "Hashed bits disturb the counts.", returning(_hashed_bits_above)),
    Mutant("OWN-122", _TEXT_DRAFT, "Shares add up to 2.", returning(_unnormalized)),
    Mutant("OWN-123", _TEXT_DRAFT, "The draft cache plays no part.", given(_cache_ignored)),
    Mutant("OWN-355", "hash_sampling_logits", "The last tokens keep falling apart.", returning(_least_logit_uncapped)),
)
