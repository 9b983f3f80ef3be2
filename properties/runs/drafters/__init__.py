"""Whole runs of each drafter: what it drafts from, and that nothing is lost."""
