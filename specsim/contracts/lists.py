"""List arguments: what identifies their arrays, and lists of which that is known beforehand."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple, Self

from specsim.contracts.extents import Extent, bounds_of, pairs_sharing
from specsim.contracts.kinds import ArrayKind, Form


class NoList(NamedTuple):
    """Something else stands where a list of arrays should."""

    given: type


class ArrayTuple(tuple[Any, ...]):
    """A list argument that never changes: what identifies its arrays, and where they lie, is taken once.

    Pass it wherever a list of arrays is asked for. ``block`` is the memory from the first to the last of them, and
    ``is_shared`` says that two of them share some, so that they cannot be written.
    """

    forms: tuple[Form, ...]
    place: Any
    extents: tuple[Extent, ...]
    block: tuple[int, int]
    is_shared: bool

    def __new__(cls, arrays: Iterable[Any], kind: ArrayKind) -> Self:
        """Keep the arrays and what identifies them."""
        self = super().__new__(cls, arrays)
        self.forms, self.place = forms_and_place(tuple(self), kind.attribute)
        self.extents = () if kind.memory is None else tuple(map(kind.memory.extent_of, self))
        bounds = [bounds_of(extent) for extent in self.extents]
        self.block = min((start for start, _ in bounds), default=0), max((stop for _, stop in bounds), default=0)
        self.is_shared = any(pairs_sharing(self.extents, [True] * len(self.extents)))
        return self


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
