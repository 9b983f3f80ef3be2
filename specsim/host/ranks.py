"""What ranks that run the same requests agree on: decisions of the first of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

DECISIONS = (
    "first tokens",
    "draft tokens",
    "verify lengths",
    "accepted nodes",
    "accepted drafts",
    "bonus tokens",
    "trimmed drafts",
    "number of steps",
)
"""What differs between ranks by the last bit of what it is decided by, until they agree on it."""


class Ranks(Protocol):
    """Ranks that can be asked for a sum, and which of them are left, ascending."""

    @property
    def rank(self) -> int:
        """The number of this one."""

    @property
    def members(self) -> Sequence[int]:
        """The numbers of those that are left."""

    def sum(self, what: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over all ranks that are left; every rank has as many values."""


def broadcast_decision(what: str, own: NDArray[Any], group: Ranks) -> NDArray[Any]:
    """Return what the first rank that is left has decided.

    Parameters
    ----------
    what : str
        Which decision it is: here one of ``DECISIONS``, in an engine any name. All ranks take them in the same order.
    own : integer array of any shape
        What this rank has decided.
    group : Ranks
        The ranks that run the same requests; all of them call this.

    Returns
    -------
    decided : like own
        The values of the first rank. Whatever is done with them afterwards has to be the same on every rank.

    Notes
    -----
    Source: semantics Q.8.1.
    """
    values = np.ascontiguousarray(own).astype(np.int64)
    while True:
        first = group.members[0]
        said = group.sum(what, values if group.rank == first else values * 0)
        # NOTE: where the first rank is lost meanwhile, the sum is of those that said nothing.
        if group.members[0] == first:
            return said.astype(own.dtype).reshape(own.shape)
