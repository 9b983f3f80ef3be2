"""Draft sides in NumPy: what each algorithm does beside the two loops."""
