"""How many rows a forward is padded to: what is decided, over which forward, and by buckets."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum


class ForwardKind(IntEnum):
    """Which forward of an iteration it is, in the order in which one rank runs them; ``NONE`` is a rank that waits."""

    TARGET_PREFILL = 0
    DRAFT_PREFILL = 1
    DRAFT_STEP = 2
    VERIFY = 3
    DRAFT_EXTEND = 4
    NONE = 5

    @property
    def is_prefill(self) -> bool:
        """Whether prompts run, whose requests have as many rows as they like."""
        return self in (ForwardKind.TARGET_PREFILL, ForwardKind.DRAFT_PREFILL)


@dataclass(frozen=True)
class Agreement:
    """The rows of a padded forward, and how many of them a request has; None where it has as many as it likes."""

    num_tokens: int
    width: int | None


Agree = Callable[[ForwardKind, int, int, int | None], Agreement]
"""Decides over a forward of a kind with so many requests, rows, and rows a request."""


def to_buckets(kind: ForwardKind, num_requests: int, num_tokens: int, num_tokens_per_req: int | None) -> Agreement:
    """Pad requests, or the rows of prompts, to the next power of two; what is empty stays so."""
    count = num_tokens if num_tokens_per_req is None else num_requests
    bucket = 1 << (count - 1).bit_length() if count else 0
    return Agreement(bucket * (num_tokens_per_req or 1), num_tokens_per_req)
