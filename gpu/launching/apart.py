"""Whether written arguments of a call lie apart from its others, by their addresses alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from specsim.contracts.extents import bounds_of
from specsim.gpu.arrays import extent_of
from specsim.gpu.launching.pointers import KVBuffers, tensors_of

Spans = tuple[tuple[int, int], ...]
"""Places among addresses, each with the bytes from a tensor's first entry to after its last."""


@dataclass(frozen=True)
class Layout:
    """How far the tensors of equal calls reach from their addresses.

    Parameters
    ----------
    written, others : tuple
        Spans of tensors that have entries, and may be written or are only read.
    kept : str or None
        The argument that is ``KVBuffers``, which know where they lie, in the place of ``written``.
    """

    written: Spans
    others: Spans
    kept: str | None

    def lies_apart(self, arguments: Mapping[str, Any], addresses: Sequence[int]) -> bool:
        """Return whether no written tensor comes near another one; it may still lie apart from one that does."""
        if self.kept is not None:
            touches = arguments[self.kept].touches
            is_clear = not [1 for place, size in self.others if touches(addresses[place], addresses[place] + size)]
            return is_clear and not arguments[self.kept].is_shared
        if not self.written:
            return True
        if len(self.written) == 1:
            ((place, size),) = self.written
            start = addresses[place]
            stop = start + size
            return not [1 for place, size in self.others if start - size < addresses[place] < stop]
        spans = sorted([(addresses[place], addresses[place] + size) for place, size in self.written + self.others])
        return all(one[1] <= other[0] for one, other in pairwise(spans))


def layout_of(arguments: Mapping[str, Any], names: Sequence[str], written: Collection[str]) -> Layout:
    """Return the layout of calls that equal this one.

    Parameters
    ----------
    names, written : sequence of str
        Arguments that are tensors or lists of tensors, and which of them are written.
    """
    kept = next((name for name in written if len(written) == 1 and isinstance(arguments[name], KVBuffers)), None)
    spans: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    place = 0
    for name in names:
        for tensor in tensors_of(arguments, (name,)):
            if tensor is not None and tensor.numel() and name != kept:
                start, stop = bounds_of(extent_of(tensor))
                spans[name in written].append((place, stop - start))
            place += 1
    return Layout(tuple(spans[True]), tuple(spans[False]), kept)
