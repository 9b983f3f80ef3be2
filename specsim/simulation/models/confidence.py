"""Confidences of drafts: the head of a toy model, a table that reads the token before a draft and its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol


class ConfidenceHead(Protocol):
    """Estimates of every draft of a chain how probably it is accepted if all before it are."""

    def __call__(self, tokens: Any, arrays: Any) -> Any:
        """Return float32 [request, draft], 0 to 1; a draft and what comes after it must not be read.

        Parameters
        ----------
        tokens : int64 [request, node]
            The chains, root first.
        arrays : specsim.simulation.draft_sides.layer.ArrayLibrary
            Whose arrays they are; all of it can be captured after a first call.
        """


@dataclass(frozen=True)
class TableHead:
    """Looks the sum of a draft's place and the token before it up in a table.

    Notes
    -----
    Source: semantics Q.1.10.
    """

    shares: tuple[float, ...]

    def __call__(self, tokens: Any, arrays: Any) -> Any:
        """Return float32 [request, draft]."""
        before = tokens[:, :-1]
        places = (before + arrays.arange(before.shape[1])) % len(self.shares)
        return arrays.take(_table(self.shares, arrays), places.reshape(-1)).reshape(before.shape)


@cache
def _table(shares: Sequence[float], arrays: Any) -> Any:
    return arrays.asarray(shares, "float32")


TOY_HEAD = TableHead((0.9, 0.6, 1.0, 0.8, 0.25, 0.6, 0.95, 0.0))
"""The head of the toy models: certainties, ties and a draft that is never accepted among its confidences."""
