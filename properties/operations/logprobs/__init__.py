"""Log-probabilities of output tokens."""
