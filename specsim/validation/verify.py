"""Structural rules of verify operations."""

from specsim.validation.acceptance import drafts_fit_into_a_row
from specsim.validation.common import offsets_ascend
from specsim.validation.links import TREE

RULES = {
    "verify_tree_greedy": TREE,
    "verify_chain_greedy": (offsets_ascend("cu_num_drafts", "drafted"), drafts_fit_into_a_row),
}
