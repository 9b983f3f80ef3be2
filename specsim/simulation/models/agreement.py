"""How many rows a forward is padded to: what is decided, over which forward, and by buckets."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class ForwardKind(IntEnum):
    """Which forward of an iteration it is, in the order in which one rank runs them; ``NONE`` is a rank that waits.

    Each algorithm has its own: a draft of layers runs ``LAYER_PREFILL`` and ``LAYER_EXTEND``, one of blocks
    ``DRAFT_BLOCK`` and projections of features, one over the target's KV ``FROZEN_STEP``, and NGRAM the target's alone.
    """

    TARGET_PREFILL = 0
    DRAFT_PREFILL = 1
    LAYER_PREFILL = 2
    FEATURES_OF_PROMPTS = 3
    DRAFT_STEP = 4
    FROZEN_STEP = 5
    DRAFT_BLOCK = 6
    VERIFY = 7
    DRAFT_EXTEND = 8
    LAYER_EXTEND = 9
    FEATURES = 10
    NONE = 11

    @property
    def is_prefill(self) -> bool:
        """Whether prompts run, whose requests have as many rows as they like."""
        return self <= ForwardKind.FEATURES_OF_PROMPTS

    @property
    def is_of_target(self) -> bool:
        """Whether the target runs."""
        return self in (ForwardKind.TARGET_PREFILL, ForwardKind.VERIFY)


@dataclass(frozen=True)
class Agreement:
    """The rows of a padded forward, and how many of them a request has; None where it has as many as it likes."""

    num_tokens: int
    width: int | None


class Agree(Protocol):
    """Decides how many rows a forward is padded to."""

    def __call__(
        self,
        kind: ForwardKind,
        num_requests: int,
        num_tokens: int,
        num_tokens_per_req: int | None,
        layer: int = 0,
    ) -> Agreement:
        """Decide over a forward of so many requests, rows, and rows a request; ``layer`` tells those of layers apart.

        A batch without requests may have 0 rows a request: others say then how many they are.
        """


def to_buckets(
    kind: ForwardKind, num_requests: int, num_tokens: int, num_tokens_per_req: int | None, layer: int = 0
) -> Agreement:
    """Pad requests, or the rows of prompts, to the next power of two; what is empty stays so."""
    del kind, layer
    count = num_tokens if num_tokens_per_req is None else num_requests
    bucket = 1 << (count - 1).bit_length() if count else 0
    return Agreement(bucket * (num_tokens_per_req or 1), num_tokens_per_req)
