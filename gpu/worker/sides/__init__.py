"""Draft sides on torch tensors: what each algorithm does beside the two loops."""
