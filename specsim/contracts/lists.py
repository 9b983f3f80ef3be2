"""List arguments: what identifies their arrays, and lists of which that is known beforehand."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Self

from specsim.contracts.extents import Extent, bounds_of, merge_bounds, pairs_sharing
from specsim.contracts.kinds import ArrayKind, Form


class NoList(NamedTuple):
    """Something else stands where a list of arrays should."""

    given: type


class ArrayTuple(tuple[Any, ...]):
    """A list argument that never changes: what identifies its arrays, and where they lie, is taken once.

    Pass it wherever a list of arrays is asked for. ``blocks`` are the parts of memory that they lie in, in order and
    apart from each other, and ``is_shared`` says that two of them share some, so that they cannot be written.
    ``identity`` is what its arrays contribute to the key of a call, where that is known.
    """

    forms: tuple[Form, ...]
    place: Any
    extents: tuple[Extent, ...]
    blocks: tuple[tuple[int, int], ...]
    is_shared: bool
    identity: tuple[Any, Sequence[int], int, Any] | None = None
    _starts: list[int]

    def __new__(cls, arrays: Iterable[Any], kind: ArrayKind) -> Self:
        """Keep the arrays and what identifies them."""
        self = super().__new__(cls, arrays)
        self.forms, self.place = forms_and_place(tuple(self), kind.attribute)
        self.extents = () if kind.memory is None else tuple(map(kind.memory.extent_of, self))
        self.blocks = tuple(merge_bounds(map(bounds_of, self.extents)))
        self._starts = [start for start, _ in self.blocks]
        self.is_shared = any(pairs_sharing(self.extents, [True] * len(self.extents)))
        return self

    def touches(self, start: int, stop: int) -> bool:
        """Return whether a part of memory meets a block of these arrays."""
        place = bisect_left(self._starts, stop) - 1
        return place >= 0 and self.blocks[place][1] > start


def forms_and_place(arrays: Any, attribute: str) -> tuple[tuple[Form, ...], Any]:
    """Return what identifies the arrays of a list argument, and the place that they share, None without arrays.

    Raises
    ------
    AttributeError
        It is no list, or holds something else than arrays, or arrays of different places.
    """
    if isinstance(arrays, ArrayTuple):
        return arrays.forms, arrays.place
    if not isinstance(arrays, list | tuple):
        raise AttributeError("no list of arrays")
    forms = tuple([(array.__class__, array.shape, array.dtype) for array in arrays])
    if not attribute or not arrays:
        return forms, None
    places = list(map(attrgetter(attribute), arrays))
    if places.count(places[0]) != len(places):
        raise AttributeError("arrays of different places")
    return forms, places[0]
