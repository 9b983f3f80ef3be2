"""Draft sides that both layers run: the same steps on NumPy arrays and on tensors of torch."""
