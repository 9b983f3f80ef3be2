"""Scheduled verification: budgets, ragged windows, the cut of an acceptance, and commits."""
