"""How launches are carried out: who sees them, whether they run, and how work is cut.

In production no one looks. A test, the bench or the ahead-of-time compilation changes the mode for a block of code:
``with launching(observer=seen.append): …``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from specsim.gpu.launching.blocks import FOR_INTERPRETER, INTERPRETED, LARGEST_TILE, ON_GPU, Blocks

PROGRAMS_TO_FILL = 2048
"""Programs that fill a GPU: about sixteen for each of the 132 multiprocessors of an H200."""

HERE = FOR_INTERPRETER if INTERPRETED else ON_GPU
"""How work is cut on this machine."""


@dataclass(frozen=True)
class Mode:
    """How launches are carried out.

    ``observer`` is called with every ``Launch`` before it runs; without ``runs`` nothing else happens, so that
    arguments may lie anywhere, even on the ``meta`` device.
    """

    observer: Callable[[Any], None] | None = None
    runs: bool = True
    blocks: Blocks = HERE


PRODUCTION = Mode()
_MODE: ContextVar[Mode] = ContextVar("launching_mode", default=PRODUCTION)
current_mode = _MODE.get


@contextmanager
def launching(
    observer: Callable[[Any], None] | None = None, *, runs: bool = True, blocks: Blocks = HERE
) -> Iterator[None]:
    """Carry launches out in another way while the block runs."""
    token = _MODE.set(Mode(observer=observer, runs=runs, blocks=blocks))
    try:
        yield
    finally:
        _MODE.reset(token)


def choose_block(size: int, most: int, interpreted: int = LARGEST_TILE) -> int:
    """Return a block for ``size`` entries: at most ``most`` on the GPU, ``interpreted`` under the interpreter."""
    return current_mode().blocks.block(size, most, interpreted)


def chunks_to_fill(num_items: int, num_chunks: int, num_programs: int = PROGRAMS_TO_FILL) -> int:
    """Return over how many programs to split each item: enough to fill a GPU, one under the interpreter."""
    return current_mode().blocks.chunks(num_items, num_chunks, num_programs)
