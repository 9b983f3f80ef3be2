"""The seam between workers and language models, and the toy models, which make faults visible."""
