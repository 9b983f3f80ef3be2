"""Drafting: which candidates are chosen, whose children they are, and what is kept of them."""
