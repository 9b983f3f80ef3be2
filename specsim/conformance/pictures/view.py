"""A call as its pictures read it: arrays by name, or None where there is none of that form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """

    arguments: Mapping[str, Any]
    outputs: Mapping[str, Any]

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

    @property
    def num_requests(self) -> int:
        """How many requests the batch has, by the argument that says so; 0 if none does."""
        ends = self.given("cu_num_drafts")
        if ends is not None:
            return max(len(ends) - 1, 0)
        names = (
            "retrieve_next_token",
            "accept_index",
            "candidates",
            "seq_lens",
            "req_pool_indices",
            "num_accepted_tokens",
        )
        return max((len(one) for one in (self.given(name) for name in names) if one is not None), default=0)


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
    row = at(view.given("accept_index") if rows is None else rows, request)
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
