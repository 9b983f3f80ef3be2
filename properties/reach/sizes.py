"""Classes of sizes: 1, 2, and what lies just below, at and just above each power of two, of everything a run has.

A fault that begins at a size shows in no run that stays below it. Kernels cut their work into powers of two, so that
sizes around these are where faults begin.
"""

from dataclasses import dataclass
from enum import StrEnum

from specsim.conformance.backend import Backend
from specsim.environment import INTERPRETER, says_yes
from specsim.operations import TABLE

LARGEST_POWER = 64
LARGEST_POWER_OF_SOME_OPERATIONS = 16
"""Where a module has some operations and no worker, so that most of a run is the reference's."""

LARGEST_INTERPRETED_POWER = 8
"""Where kernels are interpreted, and a decode iteration takes a third of a second."""


class Dimension(StrEnum):
    """What has a size.

    A batch has grown to its size, or shrunk to it; a worker with rows for so many requests, which it captures graphs
    for, has a full batch, or lacks one and pads; a path of so many steps is accepted whole.
    """

    PROMPT = "prompt"
    OUTPUT = "output"
    GROWN = "grown batch"
    SHRUNK = "shrunk batch"
    FULL = "full capacity"
    PADDED = "capacity but one"
    STEPS = "steps"
    TOPK = "topk"


class Place(StrEnum):
    """Where a size is met: one form of drafts on one worker, because each of the four has code of its own."""

    CHAIN_V1 = "chain on V1"
    CHAIN_V2 = "chain on V2"
    TREE_V1 = "tree on V1"
    TREE_V2 = "tree on V2"

    @property
    def is_tree(self) -> bool:
        """Whether drafts are trees."""
        return self in (Place.TREE_V1, Place.TREE_V2)

    @property
    def is_v1(self) -> bool:
        """Whether the worker is that of V1."""
        return self in (Place.CHAIN_V1, Place.TREE_V1)


@dataclass(frozen=True)
class SizeClass:
    """One size of one dimension in one place."""

    dimension: Dimension
    size: int
    place: Place

    def __str__(self) -> str:
        return f"{self.dimension} {self.size}, {self.place}"


def is_interpreted(backend: Backend) -> bool:
    """Return whether an implementation's kernels run under an interpreter."""
    return backend.arrays.KIND != "numpy" and says_yes(INTERPRETER)


def largest_power(backend: Backend) -> int:
    """Return the largest power of two around which an implementation is tried."""
    if is_interpreted(backend):
        return LARGEST_INTERPRETED_POWER
    is_whole = backend.has_worker or all(backend.has(name) for name in TABLE)
    return LARGEST_POWER if is_whole else LARGEST_POWER_OF_SOME_OPERATIONS


def sizes_up_to(power: int) -> tuple[int, ...]:
    """Return the sizes around every power of two from 1 to ``power``, in ascending order."""
    powers = [1 << exponent for exponent in range(power.bit_length())]
    around = {size for power in powers for size in (power - 1, power, power + 1)}
    return tuple(sorted(around - {0}))


def classes_of(dimensions: tuple[Dimension, ...], power: int) -> tuple[SizeClass, ...]:
    """Return every class of some dimensions: each size in each place, as far as it exists."""
    return tuple(
        SizeClass(dimension, size, place)
        for dimension in dimensions
        for size in sizes_up_to(power)
        for place in Place
        if _exists(dimension, size, place)
    )


def place_of(is_tree: bool, is_v1: bool) -> Place:
    """Return the place of a run."""
    return next(place for place in Place if (place.is_tree, place.is_v1) == (is_tree, is_v1))


def _exists(dimension: Dimension, size: int, place: Place) -> bool:
    if dimension is Dimension.TOPK:
        return place.is_tree == (size > 1)
    return size > 1 if dimension is Dimension.PADDED else True
