"""The strategy of mutated calls, and how such a call is described."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from specsim.operations import RECORDS
from specsim.properties import strategies
from specsim.properties.strategies.malformed.arguments import Arguments
from specsim.properties.strategies.malformed.choices import Choices
from specsim.properties.strategies.malformed.mutations import mutated

MOST_CHOICES = 24
"""Three changes take no more."""

_MOST_SHOWN = 8


@dataclass(frozen=True)
class MutatedCall:
    """A valid call, and the choices that change it."""

    operation: str
    valid: Arguments
    numbers: tuple[int, ...]

    def arguments(self) -> Arguments:
        """Return what is handed over, in memory that nothing else uses."""
        return mutated(RECORDS[self.operation].contract, copy.deepcopy(self.valid), Choices(self.numbers))

    def __str__(self) -> str:
        """Return one line that says what is handed over."""
        given = ", ".join(f"{name}={in_words(value)}" for name, value in self.arguments().items())
        return f"{self.operation}({given})"


def in_words(value: Any) -> str:
    """Return an argument in a few words."""
    if isinstance(value, np.ndarray):
        entries = f" {value.tolist()}" if value.size <= _MOST_SHOWN else ""
        kind = "" if type(value) is np.ndarray else f"{type(value).__name__} "
        return f"{kind}{value.dtype} {list(value.shape)}{entries}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)}: [{', '.join(in_words(entry) for entry in value[:4])}]"
    return f"{type(value).__name__} {value}"


def mutated_calls(operation: str) -> SearchStrategy[MutatedCall]:
    """Return calls of an operation with a few changes, most of which make it no call of that operation."""
    numbers = st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=MOST_CHOICES).map(tuple)
    return st.builds(MutatedCall, st.just(operation), strategies.for_operation(operation), numbers)
