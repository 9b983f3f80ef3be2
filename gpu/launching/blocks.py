"""Block sizes: small on the GPU, as large as the work under the interpreter, where every program costs milliseconds."""

from triton import knobs

INTERPRETED = bool(knobs.runtime.interpret)
LARGEST_TILE = 1 << 18


def power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << max(size - 1, 0).bit_length()


def choose_block(size: int, most: int, interpreted: int = LARGEST_TILE) -> int:
    """Return a block for ``size`` entries: at most ``most`` on the GPU, ``interpreted`` under the interpreter."""
    return min(power_of_two(size), interpreted if INTERPRETED else most)


def ceil_div(size: int, block: int) -> int:
    """Return how many blocks cover an axis."""
    return -(-size // block)


def chunks_to_fill(num_items: int, num_chunks: int, num_programs: int = 2048) -> int:
    """Return over how many programs to split each item: enough to fill a GPU, one under the interpreter."""
    most = 1 if INTERPRETED else ceil_div(num_programs, max(num_items, 1))
    return max(1, min(num_chunks, most))
