"""Random streams: which draws share their noise."""
