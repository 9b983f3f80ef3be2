"""The adaptive controller."""
