"""Strategies that are made once and drawn from often: Hypothesis examines each new one before its first draw."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

from hypothesis.strategies import SearchStrategy

from specsim.properties.strategies.limits import is_within_limits
from specsim.properties.strategies.numbers import draws_entries
from specsim.properties.strategies.scale import draws_for_interpreter

P = ParamSpec("P")
T = TypeVar("T")


def made_once(make: Callable[P, SearchStrategy[T]]) -> Callable[P, SearchStrategy[T]]:
    """Let a function return the same strategy for the same arguments, which have to be hashable.

    What is drawn for a seed is the same. Surroundings that a strategy may heed belong to the arguments, and inside
    limits, which have no end of values, each strategy is made anew.
    """

    def made_in(
        is_entry_wise: bool, is_interpreted: bool, /, *arguments: P.args, **named: P.kwargs
    ) -> SearchStrategy[T]:
        return make(*arguments, **named)

    made: Callable[..., SearchStrategy[T]] = lru_cache(typed=True)(made_in)

    @wraps(make)
    def once(*arguments: P.args, **named: P.kwargs) -> SearchStrategy[T]:
        if is_within_limits():
            return make(*arguments, **named)
        return made(draws_entries(), draws_for_interpreter(), *arguments, **named)

    return once
