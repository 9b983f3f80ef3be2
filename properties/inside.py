"""What is so inside of a block, and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def having(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Let a variable have a value, inside."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
