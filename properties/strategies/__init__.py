"""Hypothesis strategies of every operation, and what strategies of several groups share.

A group's strategies stand in ``specsim.properties.operations``: one function of each operation's name, which draws the
arguments of a valid call.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.discovery import modules_named
from specsim.operations import GROUPS, MODEL_GROUPS, RECORDS
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import MAX_REQUESTS, Arguments, any_layout, is_strided
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.numbers import drawing_entries

T = TypeVar("T")

__all__ = ["Arguments", "entry_wise", "for_operation", "in_any_layout", "is_strided", "modules"]


@cache
def modules() -> Mapping[str, ModuleType]:
    """Return the strategies of each group, in the order of the groups; a group that has none is left out.

    They import what stands here, so that they are looked for when one is first asked for.
    """
    found = modules_named("specsim.properties.operations", "strategy")
    places = {**dict.fromkeys(GROUPS, ""), **dict.fromkeys(MODEL_GROUPS, "models.")}
    wanted = {group: f"specsim.properties.operations.{place}{group}.strategy" for group, place in places.items()}
    return {group: found[name] for group, name in wanted.items() if name in found}


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
    module = modules().get(group)
    function: Callable[[int], SearchStrategy[Arguments]] | None = vars(module).get(name) if module is not None else None
    if function is None:
        raise NotImplementedError(
            f"there is no strategy of {name}; write it in properties/operations/{group}/strategy.py"
        )
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
