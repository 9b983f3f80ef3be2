"""The inputs with which the draft model catches up."""
