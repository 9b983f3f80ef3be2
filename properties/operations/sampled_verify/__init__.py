"""The target's own draws, and drafts that are accepted because they equal them."""
