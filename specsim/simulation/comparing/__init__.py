"""Two runs of the same requests, compared as they go."""
