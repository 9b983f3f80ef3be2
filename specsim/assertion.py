"""A law is broken: how it is said.

The statement ``assert`` is gone under ``python -O``, and with it the verdict that it decides; these functions stay.
"""

from typing import Any, TypeVar

T = TypeVar("T")


def require(holds: Any, what: str, got: object, expected: object) -> None:
    """Raise AssertionError unless the condition holds."""
    if not holds:
        raise AssertionError(f"{what} = {got}, but should be {expected}")


def require_kind(what: str, value: object, kind: type[T]) -> T:
    """Return the value, or raise AssertionError if it is of another class."""
    if not isinstance(value, kind):
        raise AssertionError(f"{what} = {type(value).__name__}, but should be {kind.__name__}")
    return value


def require_present(what: str, value: T | None) -> T:
    """Return the value, or raise AssertionError if there is none."""
    if value is None:
        raise AssertionError(f"{what} = None, but should be there")
    return value
