"""Causal language models of local checkpoints as models of a worker: the extra ``models``."""
