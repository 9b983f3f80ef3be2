"""Whole runs of which something leaves, or that go on elsewhere."""
