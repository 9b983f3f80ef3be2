"""Structural rules of grammar masks."""

from specsim.validation.links import LINKS_OF_A_TREE

RULES = {"generate_token_bitmask": LINKS_OF_A_TREE}
