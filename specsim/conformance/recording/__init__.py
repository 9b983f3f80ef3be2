"""Calls of a running engine, sampled and written as case files: ``with specsim.record(folder, implementation): …``."""
