"""Drafts that are drawn, and the rows that they are drawn from."""
