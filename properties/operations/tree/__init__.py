"""The tree: its links, its positions and its mask."""
