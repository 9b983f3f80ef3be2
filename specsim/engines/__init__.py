"""Adapters for released engines: ``specsim check specsim.engines.sglang`` tests the functions that are installed.

Each adapter names the definitions of the engine that an operation stands for. What a release lacks is missing. Only the
engine's Python files are needed: of each module no more is executed than the definitions that are asked for.
"""
