"""Memory of an engine without an engine: allocators, caches, lengths, and what leaves it."""
