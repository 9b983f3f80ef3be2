"""Grammar masks of the nodes of a tree."""
