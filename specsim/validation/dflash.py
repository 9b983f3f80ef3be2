"""Structural rules of DFLASH's operations."""

from specsim.validation.probabilities import LOGITS

RULES = {"keep_top_k_exactly": LOGITS}
