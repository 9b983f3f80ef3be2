"""Figures of what was accepted, for all drafts and by position."""
