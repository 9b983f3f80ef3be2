"""Attention: metadata for kernels, and which keys the nodes of a tree attend to."""
