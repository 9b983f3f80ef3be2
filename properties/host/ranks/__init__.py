"""Ranks that run the same requests and have to decide alike."""
