"""Simulated acceptance."""
