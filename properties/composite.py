"""Strategies that are functions which draw: made of them when one is first called, and not when it is imported."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

P = ParamSpec("P")
T = TypeVar("T")


def composite(define: Callable[Concatenate[DrawFn, P], T]) -> Callable[P, SearchStrategy[T]]:
    """Make a strategy of a function that draws, the same as Hypothesis does.

    Hypothesis parses the source of the function for it. There are two hundred of them, and a process needs few.
    """

    @cache
    def made() -> Callable[P, SearchStrategy[T]]:
        return st.composite(define)

    @wraps(define)
    def strategy(*arguments: P.args, **named: P.kwargs) -> SearchStrategy[T]:
        return made()(*arguments, **named)

    return strategy
