"""The turns of an engine: what is launched, what is resolved, and what may happen between."""
