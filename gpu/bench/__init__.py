"""Latency of operations and iterations."""
