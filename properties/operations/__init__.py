"""A shelf for each group of operations: what is drawn, what must hold, and faults that break it."""
