"""What laws of several subjects share: checks, links, exact cells, frequencies. Laws stand on the shelves."""
