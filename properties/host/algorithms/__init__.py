"""The registry of algorithms."""
