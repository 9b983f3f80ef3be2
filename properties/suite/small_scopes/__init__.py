"""Small scopes, completely: every history of two requests, trees of three nodes and a handful of slots."""
