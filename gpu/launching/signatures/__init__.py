"""How each kernel is compiled ahead of time: one module a group, keyed by kernel name."""
