"""Whole runs that draft or verify as many tokens as something decides: steps, rests, budgets."""
