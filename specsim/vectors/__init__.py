"""Vectors: calls and what they should give, in files, so that an engine in any language tests itself."""
