"""Under what a text is cached."""

from collections.abc import Callable, Sequence

from specsim.simulation.memory.protocols import KeyUnit

KeyUnits = Callable[[Sequence[int], bool, int], list[KeyUnit]]
"""As ``key_units``."""


def key_units(text: Sequence[int], has_pair_keys: bool, num_ahead: int = 1) -> list[KeyUnit]:
    """Return the key of a text, a unit a position.

    The draft model's entry of a position consumed the token after it, too, where its cache is shifted, or as many as
    the draft has layers: the last positions of a text have no such tokens, and no unit.

    Notes
    -----
    Source: semantics E.4, I.4, I.7.
    """
    if not has_pair_keys:
        return list(text)
    return [tuple(text[place : place + num_ahead + 1]) for place in range(len(text) - num_ahead)]


def num_key_units(num_positions: int, has_pair_keys: bool, num_ahead: int = 1) -> int:
    """Return how many units the key of so many positions has."""
    return max(num_positions - num_ahead, 0) if has_pair_keys else num_positions
