"""One row of the bench, and how its inputs are drawn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specsim.contracts.contract import ArraySpec
from specsim.gpu.bench.iteration import EngineSizes, Iteration
from specsim.gpu.bench.needed import Counts
from specsim.operations import RECORDS


@dataclass(frozen=True)
class Row:
    """One row of the bench: an operation, what is particular about its inputs, and what of them is needed."""

    operation: str
    changed: Callable[[Iteration], dict[str, Any]] = lambda it: {}
    needed: Counts = field(default_factory=dict)
    kind: str = ""


def inputs_of(row: Row, sizes: EngineSizes) -> dict[str, Any]:
    """Draw the arguments of a row.

    Raises
    ------
    AttributeError
        An argument is neither the row's nor the iteration's, and has no default.
    """
    iteration, contract = Iteration(sizes), RECORDS[row.operation].contract
    changed = row.changed(iteration)
    given: dict[str, Any] = {}
    for spec in contract.parameters:
        has_default = not isinstance(spec, ArraySpec) and spec.default is not None
        if spec.name in changed:
            given[spec.name] = changed[spec.name]
        else:
            given[spec.name] = contract.defaults[spec.name] if has_default else getattr(iteration, spec.name)
    return given
