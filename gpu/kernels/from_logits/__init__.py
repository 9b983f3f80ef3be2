"""Kernels of acceptance from raw logits, one module each, and the device functions that they share."""
