"""Penalties of the tokens of a request, and of those on the way to a node."""
