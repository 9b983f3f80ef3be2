"""Faults in the heads of the models."""

import numpy as np

from specsim.properties.mutants.record import Named, mutants_by_operation, returning, with_arguments, with_outputs


def _least_logit_uncapped(outputs: Named, arguments: Named) -> None:
    logits = outputs["logits"]
    least = logits.min(axis=1, initial=0.0, keepdims=True)
    order = np.cumsum(logits == least, axis=1)
    outputs["logits"] = np.where(logits == least, least - (order - 1), logits).astype(np.float32)


_last_layer_ignored = with_arguments(hidden_states=lambda rows: rows * (np.arange(-rows.shape[1], 0) != -2))
_coarse = with_outputs(probabilities=lambda chances: np.floor(chances * 64) / np.float32(64))
_shortest_first = with_arguments(ngram_counts=lambda counts: counts[::-1].copy())
_hashed_bits_above = with_outputs(logits=lambda logits: logits ^ ((logits & 0xFF) << 8))
_sorted = with_outputs(probabilities=lambda chances: -np.sort(-chances))
_never_sure = with_arguments(agreement=lambda share: min(share, 2**30))

MUTANTS = mutants_by_operation(
    hash_target_logits=(
        ("OWN-111", "Token ids do not break ties.", with_outputs(logits=lambda logits: logits >> 10 << 10)),
        ("OWN-112", "The last layer's fold is ignored.", _last_layer_ignored),
        ("OWN-113", "The seed is ignored.", with_arguments(seed=0)),
    ),
    hash_draft_probabilities=(
        ("OWN-114", "Probabilities come sorted, not by token.", _sorted),
        ("OWN-115", "A hostile draft is a random one.", with_arguments(agreement=lambda share: max(share, 0))),
        ("OWN-116", "A perfect draft is right now and then.", _never_sure),
        ("OWN-117", "Probabilities are coarse.", _coarse),
        ("OWN-118", "The draft cache plays no part.", with_arguments(context=np.zeros_like)),
    ),
    text_target_logits=(
        ("OWN-119", "The shortest context weighs most.", _shortest_first),
        ("OWN-120", "Ties are not broken.", with_outputs(logits=lambda logits: logits >> 8 << 8)),
        ("OWN-121", "Hashed bits disturb the counts.", _hashed_bits_above),
    ),
    text_draft_probabilities=(
        ("OWN-122", "Shares add up to 2.", with_outputs(probabilities=lambda chances: chances * np.float32(2))),
        ("OWN-123", "The draft cache plays no part.", with_arguments(context=np.zeros_like)),
    ),
    hash_sampling_logits=(("OWN-355", "The last tokens keep falling apart.", returning(_least_logit_uncapped)),),
)
