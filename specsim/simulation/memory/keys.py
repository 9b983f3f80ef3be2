"""Under what a text is cached."""

from collections.abc import Sequence
from itertools import pairwise

from specsim.simulation.memory.protocols import KeyUnit


def key_units(text: Sequence[int], has_pair_keys: bool) -> list[KeyUnit]:
    """Return the key of a text, a unit a position.

    The draft model's entry of a position consumed the token behind it, too, where its cache is shifted: the last
    position of a text has no such token, and no unit.

    Notes
    -----
    Source: semantics I.4, I.7.
    """
    return list(pairwise(text)) if has_pair_keys else list(text)


def num_key_units(num_positions: int, has_pair_keys: bool) -> int:
    """Return how many units the key of so many positions has."""
    return max(num_positions - 1, 0) if has_pair_keys else num_positions
