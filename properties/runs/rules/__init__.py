"""Whole runs under rules about logits, custom processors and grammars."""
