"""Whole runs: a scenario says what is run, a play runs it and shows what can be observed after each step."""
