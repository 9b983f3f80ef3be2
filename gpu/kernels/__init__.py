"""Device code: only ``@triton.jit`` functions, one module a group."""
