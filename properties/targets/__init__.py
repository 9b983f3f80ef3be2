"""What the suite is meant to state, target by target: which properties and tests state it, and what is open."""
