"""Choices that were drawn beforehand, as numbers: they can be repeated, and smaller numbers are simpler choices."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads drawn numbers one after another; after the last of them every choice is the first one."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def randrange(self, stop: int) -> int:
        """Return a number below ``stop``."""
        return next(self._numbers, 0) % stop

    def randint(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``."""
        return low + self.randrange(high - low + 1)

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.randrange(len(options))]
