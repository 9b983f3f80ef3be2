"""Padding of forwards."""
