"""The texts of the two requests, and the tags that prove which position of which text a slot holds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.properties.suite.small_scopes.scopes import NUM_REQUESTS, Scope

Tags = NDArray[np.int64]

NOBODYS = -1
"""What lies in a slot that no position needs."""

REJECTED, DRAFTED = -2, -3
"""What a verify leaves at a node that is not accepted, and a draft in its scratch."""

MOST_POSITIONS = 40
"""Longer than anything that a small scope writes."""

_OF_A_REQUEST, _OF_A_DRAFT = 100, -10


@dataclass(frozen=True)
class Texts:
    """What the two requests say, however their drafts fare: a verification decides how fast, not what.

    Parameters
    ----------
    tokens : tuple
        One text a request, longer than it gets.
    target, draft : tuple of arrays
        Tag of each position in either pool. That of the target depends on the text up to the position, that of the
        draft on the token after it, too.
    """

    tokens: tuple[tuple[int, ...], ...]
    target: tuple[Tags, ...]
    draft: tuple[Tags, ...]

    @classmethod
    def of(cls, scope: Scope) -> "Texts":
        """Return the texts of a scope: prompts begin alike where prefixes are cached."""
        num_shared = scope.prompt_length - 1 if scope.has_prefix_cache else 0
        tokens = tuple(
            tuple(
                1 + position if position < num_shared else _OF_A_REQUEST * (request + 1) + position
                for position in range(MOST_POSITIONS)
            )
            for request in range(NUM_REQUESTS)
        )
        target = tuple(_tags([text[: end + 1] for end in range(MOST_POSITIONS)]) for text in tokens)
        draft = tuple(_tags([(_OF_A_DRAFT, *text[: end + 2]) for end in range(MOST_POSITIONS)]) for text in tokens)
        return cls(tokens, target, draft)

    def named(self, token: int, names: tuple[int, ...]) -> int:
        """Return a token under other names of the requests."""
        request, position = divmod(token, _OF_A_REQUEST)
        return token if request == 0 else _OF_A_REQUEST * (names[request - 1] + 1) + position


def _tags(contexts: list[tuple[int, ...]]) -> Tags:
    # NOTE: the hash of integers is the same in every process, and never one of the marks.
    return np.array([abs(hash(context)) for context in contexts], dtype=np.int64)
