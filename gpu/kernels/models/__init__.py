"""Kernels of the toy models."""
