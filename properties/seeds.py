"""Where the numbers come from that a run draws by itself: one source a seed, the same in every process."""

from random import Random


def source_of(seed: int | str) -> Random:
    """Return a new source of numbers, which begins where its seed says."""
    return Random(seed)
