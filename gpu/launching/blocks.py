"""How work is cut: into small blocks on the GPU, into few programs under the interpreter, whose programs are slow."""

from collections.abc import Callable
from dataclasses import dataclass

from triton import knobs

INTERPRETED = bool(knobs.runtime.interpret)
"""Whether kernels run under Triton's interpreter here, as they do where there is no GPU."""

LARGEST_TILE = 1 << 18
"""Entries of the largest tile under the interpreter: more of them cost more memory than fewer programs save time."""


UNIT = 8
"""Neighbouring logits that a thread loads at once: 16 bytes of bfloat16."""

WARP_SIZE = 32
"""Threads of a warp."""


def power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << max(size - 1, 0).bit_length()


def ceil_div(size: int, block: int) -> int:
    """Return how many blocks cover an axis."""
    return -(-size // block)


@dataclass(frozen=True, eq=False)
class Blocks:
    """One way to cut work.

    Parameters
    ----------
    block : callable
        Takes a number of entries, the most that a program of the GPU should own, and the most under the interpreter;
        returns a power of two.
    chunks : callable
        Takes a number of items, how many chunks each may be split into, and how many programs fill a GPU; returns the
        number of chunks.
    sorts : bool
        Whether a partial sort costs less than taking many maxima one after another.
    """

    block: Callable[[int, int, int], int]
    chunks: Callable[[int, int, int], int]
    sorts: bool


ON_GPU = Blocks(
    block=lambda size, most, interpreted: min(power_of_two(size), most),
    chunks=lambda items, chunks, programs: max(1, min(chunks, ceil_div(programs, max(items, 1)))),
    sorts=True,
)

# NOTE: the interpreter sorts element by element.
FOR_INTERPRETER = Blocks(
    block=lambda size, most, interpreted: min(power_of_two(size), interpreted),
    chunks=lambda items, chunks, programs: 1,
    sorts=False,
)
