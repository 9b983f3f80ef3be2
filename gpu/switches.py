"""Four switches of the GPU layer, all off in production.

``debugging()`` makes every host function check the entries of its arguments, which costs a synchronisation; the
variable ``SPECSIM_DEBUG=1`` does so from the start. ``poisoned(pattern)`` fills every output, and all scratch memory,
with a pattern before the kernel runs, so that an entry which no kernel wrote shows. ``simulating_graphs()`` lets
workers capture graphs where there is no GPU. ``guarding_buffers()`` puts zones around what workers load batches into,
which nothing may write, and poisons it before it is loaded; ``SPECSIM_DEBUG=1`` does that from the start, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from specsim.environment import DEBUG, says_yes

IS_DEBUGGED = says_yes(DEBUG)
_CHECKS_VALUES: ContextVar[bool] = ContextVar("checks_values", default=IS_DEBUGGED)
_POISON: ContextVar[int | None] = ContextVar("poison", default=None)
_SIMULATES_GRAPHS: ContextVar[bool] = ContextVar("simulates_graphs", default=False)
_GUARDS_BUFFERS: ContextVar[bool] = ContextVar("guards_buffers", default=IS_DEBUGGED)
_IS_CAPTURING: ContextVar[bool] = ContextVar("is_capturing", default=False)


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
    """Fill fresh outputs and scratch memory with a byte pattern (0 to 255) while the block runs."""
    token = _POISON.set(pattern)
    try:
        yield
    finally:
        _POISON.reset(token)


@contextmanager
def simulating_graphs(is_on: bool = True) -> Iterator[None]:
    """Let workers that are asked for graphs capture simulated ones where there is no GPU, or refuse as ever."""
    token = _SIMULATES_GRAPHS.set(is_on)
    try:
        yield
    finally:
        _SIMULATES_GRAPHS.reset(token)


@contextmanager
def guarding_buffers(is_on: bool = True) -> Iterator[None]:
    """Let workers that are made and run in the block watch what they load batches into, or not; the host then waits."""
    token = _GUARDS_BUFFERS.set(is_on)
    try:
        yield
    finally:
        _GUARDS_BUFFERS.reset(token)


@contextmanager
def capturing() -> Iterator[None]:
    """Say that the block is a capture of a simulated graph."""
    token = _IS_CAPTURING.set(True)
    try:
        yield
    finally:
        _IS_CAPTURING.reset(token)


def checks_values() -> bool:
    """Return whether entries are checked: never while a graph is captured, which cannot wait for them."""
    return _CHECKS_VALUES.get() and not is_capturing()


def is_capturing() -> bool:
    """Return whether a graph is captured in the caller's stream, where every copy would become a part of it."""
    return _IS_CAPTURING.get() or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def simulates_graphs() -> bool:
    """Return whether graphs are simulated where there is no GPU."""
    return _SIMULATES_GRAPHS.get()


def guards_buffers() -> bool:
    """Return whether what batches are loaded into is guarded and poisoned."""
    return _GUARDS_BUFFERS.get()


def poison_pattern() -> int | None:
    """Return the byte pattern of fresh outputs, or None."""
    return _POISON.get()
