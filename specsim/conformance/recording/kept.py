"""Calls that are kept: copies of what went in and came out, and how many calls were not kept, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from specsim.contracts.contract import ArraySpec, ScalarSpec
from specsim.operations.record import Operation

Copy = Callable[[Any], Any]


class NotUnderstood(TypeError):
    """A call is none that the table describes."""


@dataclass
class Tally:
    """How many calls of an operation there were, and how many of them could not be kept.

    ``in_captures`` were made while a graph was captured, when nothing may be copied; ``not_understood`` had arguments
    or outputs of other kinds than the operation's; ``too_large`` and ``no_room`` had more bytes than one call, or all
    that are held at a time, may have.
    """

    calls: int = 0
    in_captures: int = 0
    not_understood: int = 0
    too_large: int = 0
    no_room: int = 0


@dataclass(eq=False)
class Kept:
    """A call: copies of its arguments, and of its outputs or what was raised; on disk once it has a path.

    ``is_let_go`` says that its copies are held no longer, because a file has them.
    """

    operation: str
    arguments: dict[str, Any]
    num_bytes: int
    outputs: dict[str, Any] = field(default_factory=dict)
    rejection: str = ""
    error: str = ""
    path: Path | None = None
    num_written: int = 0
    is_let_go: bool = False


def num_bytes_of(values: Mapping[str, Any]) -> int:
    """Return the size of copies of some arguments or outputs; nothing is read of them."""
    flat = [one for value in values.values() for one in (value if isinstance(value, list | tuple) else [value])]
    return sum(int(one.nbytes) for one in flat if hasattr(one, "nbytes"))


def copies(operation: Operation, arguments: Mapping[str, Any], copy: Copy) -> dict[str, Any]:
    """Return copies of the arguments of a call.

    Raises
    ------
    NotUnderstood
        An argument is missing or surplus, or none that an operation takes.
    """
    parameters = operation.contract.parameters
    if {spec.name for spec in parameters} != set(arguments):
        raise NotUnderstood(f"{operation.name} is called with {sorted(arguments)}")
    return {spec.name: copied(spec, arguments[spec.name], copy) for spec in parameters}


def copied(spec: ArraySpec | ScalarSpec, value: Any, copy: Copy) -> Any:
    """Return a copy of an array, a list of them, or a scalar."""
    if isinstance(spec, ScalarSpec):
        # NOTE: an array would have to be waited for.
        if not isinstance(value, int | np.integer | np.bool_):
            raise NotUnderstood(f"{spec.name} is {type(value).__name__}")
        return int(value)
    if value is None:
        return None
    if spec.each is not None:
        if not isinstance(value, list | tuple):
            raise NotUnderstood(f"{spec.name} is {type(value).__name__}")
        return [copy(one) for one in value]
    return copy(value)


def outputs_by_name(operation: Operation, outputs: Sequence[Any]) -> dict[str, Any]:
    """Return outputs by name.

    Raises
    ------
    NotUnderstood
        There are more or fewer than the contract has.
    """
    specs = operation.contract.outputs
    if len(outputs) != len(specs):
        raise NotUnderstood(f"{operation.name} returned {len(outputs)} arrays, but should return {len(specs)}")
    return {spec.name: output for spec, output in zip(specs, outputs, strict=True)}
