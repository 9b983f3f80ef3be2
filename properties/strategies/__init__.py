"""Hypothesis strategies: for every operation one function of its name, which draws the arguments of a valid call."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.discovery import modules_of
from specsim.operations import ALL_GROUPS, RECORDS
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, any_layout, is_strided
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.numbers import drawing_entries

T = TypeVar("T")

MODULES = modules_of(__name__, ALL_GROUPS)
"""The strategies of each group; other modules here draw cases of laws and what several strategies share."""

__all__ = ["Arguments", "entry_wise", "for_operation", "in_any_layout", "is_strided"]


@made_once
def for_operation(
    name: str, max_requests: int = MAX_REQUESTS, is_entry_wise: bool = False
) -> SearchStrategy[Arguments]:
    """Return the strategy of an operation's arguments: NumPy arrays, lists of them, integers and None.

    Parameters
    ----------
    name : str
        The operation.
    max_requests : int
        The largest batch; 0 draws empty batches only.
    is_entry_wise : bool
        Whether each entry of an array is drawn on its own rather than all of them from one seed: the same cases, drawn
        more slowly, in which a byte that a fuzzer changes moves an entry and not an array.

    Raises
    ------
    NotImplementedError
        The group's module has no function of that name.
    """
    group = RECORDS[name].group
    function: Callable[[int], SearchStrategy[Arguments]] | None = vars(MODULES[group]).get(name)
    if function is None:
        raise NotImplementedError(f"there is no strategy of {name}; write it in properties/strategies/{group}.py")
    return entry_wise(lambda: function(max_requests)) if is_entry_wise else function(max_requests)


def in_any_layout(name: str) -> SearchStrategy[Arguments]:
    """Return the same strategy, most often with some arrays as strided views or as views at an offset."""
    plain = for_operation(name)
    laid_out = plain.flatmap(lambda arguments: any_layout(name, arguments))
    return st.sampled_from((False, True, True, True)).flatmap(lambda is_laid_out: laid_out if is_laid_out else plain)


@composite
def entry_wise(draw: DrawFn, strategy: Callable[[], SearchStrategy[T]]) -> T:
    """Draw the cases of any strategy with each entry of an array on its own.

    Parameters
    ----------
    strategy : callable
        Returns it, like the ``strategy`` of a property.
    """
    with drawing_entries():
        return draw(strategy())
