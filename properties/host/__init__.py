"""A shelf for each subject of host functions: what is drawn, what must hold, and faults that break it."""
