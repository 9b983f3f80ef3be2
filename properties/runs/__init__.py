"""Whole runs: how they are drawn and played, and a shelf for each subject of their laws and faults."""
