"""The production worker: one module a phase, and CUDA graphs."""
