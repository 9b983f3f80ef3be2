"""Which calls of an operation are all of them, up to a number of nodes, and how many cases make one call.

A case is what one request brings. Cases that have the same sizes make a scope, and any of them are packed into a call.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.operations import RECORDS
from specsim.topology import NONE

Array = NDArray[Any]
Arguments = dict[str, Any]

MANY, FEW = 1 << 14, 1 << 9
"""Cases of a call: as many as fill a GPU, and few enough for work that grows with the square of a batch."""


@dataclass(frozen=True)
class Scope:
    """Cases of the same sizes.

    Parameters
    ----------
    sizes : mapping of str to int
        What they share.
    columns : mapping of str to array
        What each has, [case, …].
    most : int
        Cases of a call.
    """

    sizes: Mapping[str, int]
    columns: Mapping[str, Array]
    most: int = MANY

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, cases: slice | Array) -> "Scope":
        return replace(self, columns={name: column[cases] for name, column in self.columns.items()})

    def calls(self, most: int) -> Iterator["Scope"]:
        """Yield the cases in their order, so many at a time that a call takes no more of them than it may."""
        size = min(self.most, most)
        for first in range(0, len(self), size):
            yield self[first : first + size]


@dataclass(frozen=True)
class Form:
    """All calls of an operation.

    Parameters
    ----------
    operation : str
        Its name.
    count : callable
        Returns how many cases of exactly so many nodes there are.
    scopes : callable
        Yields these cases, smaller ones first.
    pack : callable
        Returns arguments of a call of some cases: those that are neither sizes nor columns of theirs under the same
        name, nor the slots or the path of each case.
    """

    operation: str
    count: Callable[[int], int]
    scopes: Callable[[int], Iterator[Scope]]
    pack: Callable[[Scope], Arguments] = lambda scope: {}

    def arguments(self, scope: Scope) -> Arguments:
        """Return all arguments of a call of some cases."""
        given = {"num_draft_tokens": scope.sizes["node"], **scope.sizes, **scope.columns, **self.pack(scope)}
        names = [spec.name for spec in RECORDS[self.operation].contract.parameters]
        return {name: given[name] if name in given else _OF_ALL[name](scope) for name in names}

    def count_up_to(self, num_nodes: int) -> int:
        """Return how many cases of at most so many nodes there are."""
        return sum(map(self.count, range(1, num_nodes + 1)))

    def scopes_up_to(self, num_nodes: int) -> Iterator[Scope]:
        """Yield the cases of at most so many nodes, those of few nodes first."""
        for number in range(1, num_nodes + 1):
            yield from self.scopes(number)


def numbered(scope: Scope) -> Array:
    """Return the number of each case in its call, as a column."""
    return np.arange(len(scope))[:, None]


def lengths(num_cases: int) -> Array:
    """Return committed lengths that differ from case to case, int64 [case]."""
    return np.arange(num_cases, dtype=np.int64) % 5


def slots_of(scope: Scope) -> Array:
    """Return a slot for each node of all cases, none twice, in descending order, int64 [case*node]."""
    return np.arange(len(scope) * scope.sizes["node"], 0, -1, dtype=np.int64)


def tokens_of(scope: Scope) -> Array:
    """Return a token for each node of all cases, int64 [case*node]."""
    return np.arange(len(scope) * scope.sizes["node"], dtype=np.int64) + 3


def accept_index_of(scope: Scope) -> Array:
    """Return the paths of all cases as global nodes, int32 [case, draft+1]."""
    path = scope.columns["path"]
    return np.where(path >= 0, path + numbered(scope) * scope.sizes["node"], NONE).astype(np.int32)


_OF_ALL: dict[str, Callable[[Scope], Array]] = {"out_cache_loc": slots_of, "accept_index": accept_index_of}
"""Arguments that calls of all operations have alike."""
