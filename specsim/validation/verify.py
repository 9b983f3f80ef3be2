"""Structural rules of verify operations."""

from specsim.validation.links import TREE

RULES = {"verify_tree_greedy": TREE}
