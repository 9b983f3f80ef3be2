"""Structural rules of the forward of a draft without KV."""

from specsim.validation.common import offsets_ascend

RULES = {"frozen_kv_draft_forward": (offsets_ascend("kv_indptr", None),)}
