"""Structural rules of sampled verify."""

from specsim.validation.probabilities import FILTERS, LOGITS

RULES = {"sample_target_predict": (*LOGITS, *FILTERS)}
