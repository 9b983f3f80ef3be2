"""Which configuration to choose: acceptance over ranges, what an iteration costs, and both compared with a baseline."""
