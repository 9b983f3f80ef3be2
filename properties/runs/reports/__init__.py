"""Whole runs that report log-probabilities and hidden states."""
