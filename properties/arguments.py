"""Take the arguments of a call apart and change one of them."""

from collections.abc import Mapping
from typing import Any

from specsim.contract import ArraySpec

Arguments = dict[str, Any]


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
