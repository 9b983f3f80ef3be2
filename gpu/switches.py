"""Two switches of the GPU layer, both off in production.

``debugging()`` makes every host function check the entries of its arguments, which costs a synchronisation; the
variable ``SPECSIM_DEBUG=1`` does so from the start. ``poisoned(pattern)`` fills every output with a pattern before the
kernel runs, so that an entry which no kernel wrote shows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from specsim.environment import DEBUG, says_yes

IS_DEBUGGED = says_yes(DEBUG)
_CHECKS_VALUES: ContextVar[bool] = ContextVar("checks_values", default=IS_DEBUGGED)
_POISON: ContextVar[int | None] = ContextVar("poison", default=None)


@contextmanager
def debugging(is_on: bool = True) -> Iterator[None]:
    """Check entries as well as shapes while the block runs, or shapes alone."""
    token = _CHECKS_VALUES.set(is_on)
    try:
        yield
    finally:
        _CHECKS_VALUES.reset(token)


@contextmanager
def poisoned(pattern: int) -> Iterator[None]:
    """Fill fresh outputs with a byte pattern (0 to 255) while the block runs."""
    token = _POISON.set(pattern)
    try:
        yield
    finally:
        _POISON.reset(token)


def checks_values() -> bool:
    """Return whether entries are checked: never while a CUDA graph is captured, which cannot wait for them."""
    return _CHECKS_VALUES.get() and not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def poison_pattern() -> int | None:
    """Return the byte pattern of fresh outputs, or None."""
    return _POISON.get()
