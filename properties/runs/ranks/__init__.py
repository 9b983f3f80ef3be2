"""Whole runs on padded forwards, and of several ranks."""
