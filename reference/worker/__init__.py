"""Workers in NumPy: V1 and V2, one module a phase."""
