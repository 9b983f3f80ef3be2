"""What is wrong with a matrix: histories that fail, leak, or come to less than their cell is there for, and laws."""

from specsim.properties.matrix.plan import Plan
from specsim.properties.matrix.run import CellResult, Result
from specsim.properties.soak.drafters import WORKER_NAMES
from specsim.properties.unit_of_work import MOST_LOSSES

MOST_REPORTED = 3
"""Histories of a cell that are reported one by one: the others mostly fail of the same."""


def complaints(result: Result) -> list[str]:
    """Return what is wrong, a line each."""
    broken = [f"{one.cell.name}, {one.mode}, law: {one.error}" for one in result.laws if one.error is not None]
    stopped = [result.stopped] if result.stopped else []
    return [*(line for one in result.cells for line in complaints_of(one)), *broken, *stopped]


def why_inconclusive(plan: Plan, result: Result, is_part: bool) -> list[str]:
    """Return what the module brings and no cell ran, and where nothing was drafted, a reason each.

    A part of a run has to run something.
    """
    vain = [f"nothing was drafted in {one.cell.name}, {one.mode}" for one in result.cells if one.is_vacuous]
    return [*plan.brings.reasons(result.ran, WORKER_NAMES, plan.refused_workers, is_part), *vain]


def complaints_of(one: CellResult) -> list[str]:
    """Return what is wrong with a cell: a line for each of the first histories that are to blame, and their number."""
    name = f"{one.cell.name}, {one.mode}"
    blamed = {number: failure.error for number, failure in one.failures.items()}
    blamed |= {number: "; ".join(missing) for number, missing in one.short.items()}
    lines = [f"{name}, history {number}: {error}" for number, error in [*blamed.items()][:MOST_REPORTED]]
    more = [f"{name}: {len(blamed) - MOST_REPORTED} histories more"] if len(blamed) > MOST_REPORTED else []
    return [*lines, *more, *(f"{name}: {words}" for words in unnumbered_complaints(one))]


def unnumbered_complaints(one: CellResult) -> list[str]:
    """Return what is wrong with a cell as a whole."""
    leaked = [f"{one.num_leaked} slots leaked"] if one.num_leaked else []
    left_out = f"{one.num_not_run} histories not run, as it has crashed or hung {MOST_LOSSES} times"
    return [*leaked, *([left_out] if one.num_not_run else [])]
