"""Smaller cases of a failure: the structure shrinks first, a step at a time, and what fills it is drawn afresh.

Bulk values come from a drawn seed, so that a smaller structure has other contents, and Hypothesis gives up on it when
these happen not to fail. Here each structure gets as many contents as it takes to tell.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from specsim.contracts.binding import bind
from specsim.counts import count_draft_nodes
from specsim.operations import RECORDS
from specsim.properties.strategies.limits import drawing_at_most
from specsim.rejection import SpecRejection

TRIES = 40
"""Contents of each structure."""


def _structure(requests: int, nodes: int, vocab: int) -> dict[str, int]:
    """Return the largest size of each axis, and value of each scalar, of calls of so many requests and nodes."""
    drafts = dict.fromkeys(("draft", "step", "num_steps", "topk", "step_index"), count_draft_nodes(nodes))
    entries = dict.fromkeys(("node", "column", "k", "pair", "length"), nodes)
    tokens = dict.fromkeys(("vocab", "draft_vocab"), vocab)
    return {"request": requests, "token": requests, "slot": 2 * nodes, "page_size": 2, **drafts, **entries, **tokens}


STRUCTURES: Sequence[Mapping[str, int]] = (
    _structure(1, 2, 2),
    _structure(1, 3, 2),
    _structure(1, 4, 3),
    _structure(2, 3, 2),
    _structure(2, 5, 4),
    _structure(3, 8, 8),
    {"request": 1, "token": 1},
)
"""From small to large; the last one is a single request of any size."""


@dataclass(frozen=True)
class Broken:
    """A case that breaks a law, and what was raised."""

    case: Any
    error: Exception


def smaller(found: Broken, operations: Sequence[str], explore: Callable[[int], Broken | None]) -> Broken:
    """Return a case of the smallest structure in which a law breaks in the same way, or the one that was found.

    Parameters
    ----------
    found : Broken
        What there is without.
    operations : sequence of str
        Those that the law calls.
    explore : callable
        Takes the number of a structure; returns the smallest case that Hypothesis finds, or None.
    """
    weight, axes = weigh(found.case), _axes_of(found.case, operations)
    for number, sizes in enumerate(STRUCTURES):
        if axes and all(axes.get(name, 0) <= most for name, most in sizes.items()):
            return found
        with drawing_at_most(sizes):
            other = explore(number)
        if other is not None and type(other.error) is type(found.error):
            return other if weigh(other.case) < weight else found
    return found


def _axes_of(case: Any, operations: Sequence[str]) -> Mapping[str, Any]:
    """Return the axes of a case that is a call, or has one among its parts; none of any other."""
    calls = [part for part in (case if isinstance(case, tuple) else (case,)) if isinstance(part, dict)]
    for operation in operations:
        contract = RECORDS[operation].contract if operation in RECORDS else None
        for call in calls:
            if contract is not None and call.keys() == {spec.name for spec in contract.parameters}:
                with suppress(SpecRejection):
                    return bind(operation, contract, call)
    return {}


def weigh(case: Any) -> int:
    """Return how many entries a case has, of arrays or whatever it is made of."""
    if isinstance(case, np.ndarray):
        return max(case.size, 1)
    if isinstance(case, Mapping):
        return sum(weigh(value) for value in case.values())
    if isinstance(case, list | tuple):
        return 1 + sum(weigh(value) for value in case)
    if is_dataclass(case) and not isinstance(case, type):
        return sum(weigh(vars(case)[one.name]) for one in fields(case))
    return 1
