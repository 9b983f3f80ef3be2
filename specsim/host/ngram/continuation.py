"""What a draft tree is grown from, wherever it was remembered."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Continuation(Protocol):
    """A token after some context, and what follows it there."""

    @property
    def token(self) -> int:
        """The token."""
        ...

    @property
    def count(self) -> int:
        """How often it came after that context."""
        ...

    def newest_first(self) -> Iterator["Continuation"]:
        """Yield what follows, the most recent one first."""
        ...


@dataclass(frozen=True)
class Anchor:
    """The end of a context that is known: how many tokens it has, and what follows it."""

    num_tokens: int
    node: Continuation


def most_common(node: Continuation, most: int) -> list[Continuation]:
    """Return so many of what follows, the most frequent first, and the smaller id where two are as frequent."""
    return heapq.nsmallest(most, node.newest_first(), key=lambda child: (-child.count, child.token))
