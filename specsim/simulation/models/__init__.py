"""Language models that make faults visible."""
