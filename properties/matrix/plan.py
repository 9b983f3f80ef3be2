"""What a matrix runs of the full product, what it leaves out, and how much of both it covers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from specsim.algorithms import DRAFTERS, Drafter
from specsim.conformance.brought import Brought
from specsim.properties.matrix.covering import Coded, Combination, cover, smallest_absent
from specsim.properties.matrix.factors import Cell
from specsim.properties.matrix.refusals import Refusal

PAIRS, TRIPLES = 2, 3


@dataclass(frozen=True)
class Profile:
    """How much is run: all combinations of ``strength`` values, and so many histories a cell."""

    strength: int
    num_histories: int


PROFILES = {"ci": Profile(PAIRS, 10), "full": Profile(TRIPLES, 50)}


@dataclass(frozen=True)
class LeftOut:
    """Values that no cell that is run may have together, why, and in how many cells of the product they meet."""

    combination: Combination
    refusals: tuple[Refusal, ...]
    num_cells: int


@dataclass(frozen=True)
class Plan:
    """The cells that are run, of those that are allowed, of the product.

    ``brings`` is what the implementation has; ``refused_workers`` says of its workers why a cell of theirs is refused.
    """

    cells: tuple[Cell, ...]
    allowed: tuple[Cell, ...]
    refused: Mapping[Cell, Refusal]
    left_out: tuple[LeftOut, ...]
    brings: Brought = field(default_factory=Brought)
    refused_workers: Mapping[str, str] = field(default_factory=dict)

    def covered(self, strength: int) -> tuple[int, int]:
        """Return how many combinations of so many values occur in the cells that are run, and in those allowed."""
        return Coded(self.cells).number_of(strength), Coded(self.allowed).number_of(strength)


def plan_matrix(
    refused: Mapping[Cell, Refusal], profile: Profile, cells: Sequence[Cell], brings: Brought | None = None
) -> Plan:
    """Choose the cells of a product that are run, of those that nothing refuses."""
    allowed = [cell for cell in cells if cell not in refused]
    return Plan(
        cells=tuple(cover(allowed, profile.strength)) if allowed else (),
        allowed=tuple(allowed),
        refused=refused,
        left_out=tuple(_explain(refused, smallest_absent(cells, allowed))),
        brings=brings or Brought(),
        refused_workers={
            _worker_of(cell): refusal.because for cell, refusal in refused.items() if refusal.by in ("worker", "engine")
        },
    )


def _worker_of(cell: Cell) -> str:
    """Return the name of the worker of a cell; of a drafter that a module brings."""
    drafter = DRAFTERS.get(cell.algorithm) or Drafter(name=cell.algorithm)
    return drafter.worker_name(cell.worker == "v1")


def _explain(refused: Mapping[Cell, Refusal], absent: Sequence[Combination]) -> Iterator[LeftOut]:
    """Yield why each combination is left out: for what its cells are refused that have no other one, if some have none.

    The reason of most of them comes first.
    """
    cells = list(refused)
    masks = np.array([*map(Coded(cells).having, absent)], dtype=np.bool_).reshape(len(absent), len(cells))
    is_alone = masks.sum(axis=0) == 1
    for combination, its in zip(absent, masks, strict=True):
        chosen = its & is_alone if (its & is_alone).any() else its
        found = Counter(refused[cells[place]] for place in np.flatnonzero(chosen))
        yield LeftOut(combination, tuple(one for one, _ in found.most_common()), int(its.sum()))
