"""Custom logit processors."""
