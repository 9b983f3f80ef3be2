"""The request-to-token map."""
