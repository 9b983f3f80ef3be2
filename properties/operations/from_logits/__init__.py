"""Acceptance by chance straight from logits, of trees, chains and blocks."""
