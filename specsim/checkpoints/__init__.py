"""Causal language models of local checkpoints behind the ``Model`` protocol: the extra ``models``."""
