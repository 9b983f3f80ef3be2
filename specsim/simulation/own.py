"""What an engine decides by, and builds its memory from, where no one brings something else."""

HOST = "specsim.conformance.catalogue"
PARTS = "specsim.simulation.memory"
