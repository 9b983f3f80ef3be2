"""Device functions that kernels of several groups call; no kernel stands here."""
