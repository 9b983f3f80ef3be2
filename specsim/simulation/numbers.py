"""How many steps an iteration drafts: one number for all requests, or one each, 0 included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specsim.config import SpecConfig
from specsim.counts import count_draft_nodes
from specsim.hashing import digest
from specsim.rejection import Reason, check_length, check_range
from specsim.simulation.requests import Request

Steps = int | Sequence[int] | None
"""The steps of an iteration: one number for all requests, one each, or None for those of the configuration.

A request that drafts k steps has the nodes of its tree whose depth is at most k.
"""

NO_DRAFT = 0
"""Token of a node that is no draft: an id that every vocabulary has, because the target runs over the node."""


@dataclass(frozen=True)
class Widths:
    """The sizes of an iteration, and the steps of each request where some have fewer than these.

    ``own_steps`` is None where every request has all of them.
    """

    config: SpecConfig
    own_steps: tuple[int, ...] | None = None


class NumDrafts(Protocol):
    """Chooses the steps of every request of an iteration."""

    def __call__(self, requests: Sequence[Request], most: int) -> Sequence[int]:
        """Return a number from 0 to ``most`` for each of the requests that take part, in their order.

        It must not read drafts of the iteration that it chooses for, and should be a function of its arguments: two
        engines that are compared ask it separately.
        """


@dataclass(frozen=True)
class DrawnNumbers:
    """Draws the number of every request anew for each of its verifies, in whatever batch.

    Half of the numbers are 0 or the most, so that requests often stop drafting and go on.
    """

    seed: int

    def __call__(self, requests: Sequence[Request], most: int) -> list[int]:
        """Return the numbers."""
        return [self._number(request, most) for request in requests]

    def _number(self, request: Request, most: int) -> int:
        word = digest([self.seed, request.request_id, request.counters.num_verifies])
        ends = 0, most
        return ends[word >> 1 & 1] if word & 1 else (word >> 2) % (most + 1)


def check_steps(own_steps: Sequence[int], num_requests: int, most: int) -> tuple[int, ...]:
    """Return the steps of requests as whole numbers.

    Raises
    ------
    SpecRejection
        INCONSISTENT_LENGTHS: not one number a request; BAD_CONFIGURATION: one below 0, or above ``most``.
    """
    check_length("len(num_steps)", len(own_steps), num_requests, "every request drafts a number of steps of its own")
    because = "an iteration drafts no more steps than positions are allocated for"
    for request, one in enumerate(own_steps):
        check_range(Reason.BAD_CONFIGURATION, f"num_steps[{request}]", one, because, 0, most)
    return tuple(int(one) for one in own_steps)


def sizes_of_iteration(config: SpecConfig, num_steps: Steps) -> SpecConfig:
    """Return the sizes of an iteration of a worker, which are those of the request that drafts the most.

    A tree of fewer levels has no width of its own: it keeps the sizes of the configuration.
    """
    if num_steps is None or isinstance(num_steps, int | np.integer):
        return config.at_steps(num_steps)
    return config.at_steps(max(num_steps, default=None)) if config.topk == 1 else config


def steps_of_requests(config: SpecConfig, num_steps: Steps, num_requests: int) -> tuple[int, ...]:
    """Return how many steps each request drafts."""
    if num_steps is None or isinstance(num_steps, int | np.integer):
        return (config.at_steps(num_steps).num_steps,) * num_requests
    return tuple(num_steps)


def drafts_of_requests(config: SpecConfig, own_steps: Sequence[int]) -> tuple[int, ...] | None:
    """Return how many drafts each request has; None where a tree of fewer levels does not say so."""
    if config.topk == 1:
        return tuple(own_steps)
    known = {0: 0, config.num_steps: int(count_draft_nodes(config.num_draft_tokens))}
    return tuple(known[one] for one in own_steps) if known.keys() >= set(own_steps) else None
