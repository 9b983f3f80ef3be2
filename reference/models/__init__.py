"""The toy models' operations in NumPy."""
