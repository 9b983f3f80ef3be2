"""Structural rules of acceptance from raw logits."""

from specsim.validation.acceptance import coins_lie_below_one
from specsim.validation.links import TREE
from specsim.validation.probabilities import FILTERS, LOGITS

RULES = {
    "verify_tree_greedy_from_logits": TREE,
    "verify_tree_sampled_from_logits": (*TREE, coins_lie_below_one, *LOGITS, *FILTERS),
}
