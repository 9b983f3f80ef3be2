"""How much a matrix would run, and for how long: a sample of its cells is run to see."""

from collections.abc import Sequence
from dataclasses import dataclass

from specsim.properties.matrix.factors import Cell
from specsim.properties.matrix.run import Laws, MatrixRun

MOST_SAMPLED = 6
"""Cells of which one history is run, and laws that are gone through."""


@dataclass(frozen=True)
class Extent:
    """What would run, in all modes together; ``seconds`` is an estimate of all of it."""

    num_cells: int
    num_histories: int
    num_laws: int
    seconds: float


def measure_extent(run: MatrixRun, cells: Sequence[Cell], numbers: Sequence[int], jobs: int, laws: Laws) -> Extent:
    """Run one history of some cells and some of the laws, and estimate what all of them take."""
    seconds = 0.0
    for some, first, stated, count in (
        (_sample(cells), numbers[:1], Laws(), len(cells) * len(numbers)),
        ((), (), Laws(_sample(laws.cells), laws.most_seeded), len(laws.cells)),
    ):
        num_sampled = len(some) * len(first) + len(stated.cells)
        if num_sampled:
            seconds += run.run(some, first, stated).busy_seconds / num_sampled * count / jobs
    modes = len(run.modes)
    return Extent(len(cells) * modes, len(cells) * modes * len(numbers), len(laws.cells) * modes, seconds)


def _sample(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return some cells from everywhere."""
    return cells[:: max(1, -(-len(cells) // MOST_SAMPLED))]
