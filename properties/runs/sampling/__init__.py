"""Whole runs of sampled requests: the law of their output, and that they follow their seeds."""
