"""Take the arguments of a call apart and change one of them."""

from collections.abc import Callable, Mapping
from typing import Any

from specsim.contracts.contract import ArraySpec

Arguments = dict[str, Any]
Fault = Callable[[Arguments, int], Arguments]
"""A structural fault: takes a valid call and a drawn number that says where."""


def with_array(arguments: Mapping[str, Any], spec: ArraySpec, index: int, value: Any) -> Arguments:
    """Return the arguments with one array replaced; ``index`` is its place in a list argument."""
    if spec.each is None:
        return {**arguments, spec.name: value}
    entries = list(arguments[spec.name])
    entries[index] = value
    return {**arguments, spec.name: entries}


def num_arrays(spec: ArraySpec, arguments: Mapping[str, Any]) -> int:
    """Return how many arrays an argument has: 1, the length of the list, or 0 if it is absent."""
    value = arguments[spec.name]
    return 0 if value is None else 1 if spec.each is None else len(value)


def array_at(arguments: Mapping[str, Any], spec: ArraySpec, index: int) -> Any:
    """Return the array that ``with_array`` would replace."""
    value = arguments[spec.name]
    return value if spec.each is None else value[index]


def with_entry(arguments: Arguments, name: str, where: int, value: Any) -> Arguments:
    """Return the arguments with one entry of an array replaced; an array without entries stays as it is."""
    changed = arguments[name].copy()
    if changed.size:
        changed.reshape(-1)[where % changed.size] = value
    return {**arguments, name: changed}
