"""What is wrong with a matrix: histories and laws that fail; and which histories came to less than their cell asks."""

from collections.abc import Mapping

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
    """Return what the module brings and no cell ran, where nothing was drafted, and which histories came to too little.

    A part of a run has to run something.
    """
    vain = [f"nothing was drafted in {one.cell.name}, {one.mode}" for one in result.cells if one.is_vacuous]
    unfinished = [line for one in result.cells for line in shortfalls_of(one)]
    return [*plan.brings.reasons(result.ran, WORKER_NAMES, plan.refused_workers, is_part), *vain, *unfinished]


def complaints_of(one: CellResult) -> list[str]:
    """Return what is wrong with a cell: a line for each of the first histories that fail, and their number."""
    name = f"{one.cell.name}, {one.mode}"
    lines = _first_of(one, {number: failure.error for number, failure in one.failures.items()})
    return [*lines, *(f"{name}: {words}" for words in unnumbered_complaints(one))]


def unnumbered_complaints(one: CellResult) -> list[str]:
    """Return what is wrong with a cell as a whole."""
    leaked = [f"{one.num_leaked} slots leaked"] if one.num_leaked else []
    left_out = f"{one.num_not_run} histories not run, as it has crashed or hung {MOST_LOSSES} times"
    return [*leaked, *([left_out] if one.num_not_run else [])]


def shortfalls_of(one: CellResult) -> list[str]:
    """Return what the first histories of a cell should have come to and have not, a line each, and their number."""
    return _first_of(one, {number: "; ".join(missing) for number, missing in one.short.items()})


def verdict_of_cell(one: CellResult) -> str:
    """Return the verdict of a cell."""
    return "fails" if complaints_of(one) else "inconclusive" if one.short else "conforms"


def _first_of(one: CellResult, said: Mapping[int, str]) -> list[str]:
    """Return what is said of the first histories of a cell, a line each, and how many others there are."""
    name = f"{one.cell.name}, {one.mode}"
    lines = [f"{name}, history {number}: {what}" for number, what in [*said.items()][:MOST_REPORTED]]
    return lines + ([f"{name}: {len(said) - MOST_REPORTED} histories more"] if len(said) > MOST_REPORTED else [])
