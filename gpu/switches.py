"""Two switches of the GPU layer, both off in production.

``debugging()`` makes every host function check the entries of its arguments, which costs a synchronisation.
``poisoned(pattern)`` fills every output with a pattern before the kernel runs, so that an entry which no kernel wrote
shows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECKS_VALUES: ContextVar[bool] = ContextVar("checks_values", default=False)
_POISON: ContextVar[int | None] = ContextVar("poison", default=None)


@contextmanager
def debugging() -> Iterator[None]:
    """Check entries as well as shapes while the block runs."""
    token = _CHECKS_VALUES.set(True)
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
    """Return whether entries are checked."""
    return _CHECKS_VALUES.get()


def poison_pattern() -> int | None:
    """Return the byte pattern of fresh outputs, or None."""
    return _POISON.get()
