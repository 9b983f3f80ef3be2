"""Decisions of a scheduler: chunks, late results, order of streams."""
