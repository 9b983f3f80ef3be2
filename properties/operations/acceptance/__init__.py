"""Acceptance by chance, of trees, chains and blocks: coins, decisions, and the exact law of the output."""
