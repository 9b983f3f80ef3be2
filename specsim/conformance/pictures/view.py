"""A call as its pictures read it: arrays by name, or None where there is none of that form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.contracts.contract import ArraySpec
from specsim.operations import RECORDS
from specsim.pictures.frame import Panel

MOST_REQUESTS, MOST_NODES, MOST_VALUES = 8, 256, 8
"""Requests of a batch that are drawn, nodes of a request, and entries of a row that a box lists."""


@dataclass(frozen=True)
class View:
    """What a call was given, and what one implementation made of it.

    Parameters
    ----------
    arguments, outputs : mapping
        By name; outputs have what was written in place as well.
    num_requests : int
        How many requests the batch has, by the contract of the operation; 0 if it has none.
    """

    arguments: Mapping[str, Any]
    outputs: Mapping[str, Any]
    num_requests: int

    @classmethod
    def of(cls, operation: str, arguments: Mapping[str, Any], outputs: Mapping[str, Any]) -> "View":
        """Return the view of a call; arrays of the axis ``request`` say how many requests there are."""
        contract = RECORDS[operation].contract
        counts = []
        for spec in (*contract.parameters, *contract.outputs):
            array = _array_of(arguments.get(spec.name, outputs.get(spec.name)))
            if isinstance(spec, ArraySpec) and spec.axes and array is not None:
                counts += [len(array)] if spec.axes[0] == "request" else []
                counts += [len(array) - 1] if spec.axes[0] == "request+1" else []
        return cls(arguments, outputs, max(counts, default=0))

    def given(self, *names: str) -> Any:
        """Return the first array of these names among the arguments, then the outputs, or None."""
        return next(
            (one for name in names for one in (self.argument(name), self.output(name)) if one is not None), None
        )

    def argument(self, name: str) -> Any:
        """Return an array that was given, or None."""
        return _array_of(self.arguments.get(name))

    def output(self, name: str) -> Any:
        """Return an array that came back or was written, or None."""
        return _array_of(self.outputs.get(name))

    def number(self, name: str) -> int:
        """Return a scalar that was given, 0 for none."""
        value = self.arguments.get(name)
        return int(value) if isinstance(value, int | np.integer) else 0


Draw = Callable[[View, int], Panel | None]
"""Draws a request of a call; None if the call has nothing of the kind."""


def _array_of(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) and value.ndim > 0 else None


def at(rows: Any, *place: int) -> Any:
    """Return an entry or a row of an array, or None where there is none."""
    for index in place:
        if not isinstance(rows, np.ndarray) or rows.ndim == 0 or not 0 <= index < len(rows):
            return None
        rows = rows[index]
    return rows


def path_of(view: View, request: int, num_nodes: int) -> list[int] | None:
    """Return the accepted nodes of a request, numbered within it, or None if the call has no path."""
    rows = view.output("simulated_accept_index")
    rows = view.given("accept_index") if rows is None else rows
    if rows is None and view.argument("accept_indices") is not None:
        # NOTE: paths in one line, each one longer than its count of drafts.
        counts = view.arguments["num_accepted_drafts"] + 1
        first, last = int(counts[:request].sum()), int(counts[: request + 1].sum())
        return [int(node) - request * num_nodes for node in view.arguments["accept_indices"][first:last]]
    row = at(rows, request)
    if row is None or row.ndim != 1:
        return None
    return [int(node) - request * num_nodes for node in row.tolist() if node >= 0]


def written(value: Any) -> str:
    """Return an entry of an array as text."""
    return f"{float(value):.6g}" if isinstance(value, np.floating) else str(value)


def width_of_block(entries: NDArray[Any] | None, num_requests: int) -> int:
    """Return how many entries a request has of a flat array, 0 if it does not divide."""
    if entries is None or num_requests == 0 or len(entries) % num_requests:
        return 0
    return len(entries) // num_requests
