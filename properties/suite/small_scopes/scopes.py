"""What is small about a scope: two requests, trees of three nodes, and hardly more slots than they need."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from specsim.config import SpecConfig
from specsim.counts import decode_allocation
from specsim.simulation.schedule import Schedule

STAR = SpecConfig(topk=2, num_steps=1, num_draft_tokens=3)
CHAIN = SpecConfig(topk=1, num_steps=2, num_draft_tokens=3)

AT_REST = SpecConfig(topk=1, num_steps=0, num_draft_tokens=1)
"""What a chain may draft as well: nothing."""

PATHS = {STAR: ((0,), (0, 1), (0, 2)), CHAIN: ((0,), (0, 1), (0, 1, 2)), AT_REST: ((0,),)}
"""Every outcome of a verification: the nodes that the target accepts."""

NUM_REQUESTS = 2
V1_SLOTS = range(6, 13)
NARROWEST, WIDEST = -2, 6
"""Slots of a V2 pool, relative to what two requests reserve when they are admitted."""

PROMPT = 2
"""Tokens of a prompt; V2 has one more on larger pages, so that its last page is not full."""

LONG_PROMPT = {1: 3, 2: 4}
"""Prompts of which a front can be cached, by page size: the last token is computed again, and has no pair."""

OUTPUT_LENGTHS = (1, 2, 6)
"""Where the output of a request ends: with its first token, inside its first run, or so late that two run together."""


@dataclass(frozen=True)
class Scope:
    """One small engine.

    Parameters
    ----------
    config : SpecConfig
        Trees of three nodes.
    num_slots : int
        Slots of the pool without page 0.
    prefill_chunk : int or None
        Positions of prompts that one turn runs.
    """

    is_v1: bool
    config: SpecConfig
    page_size: int
    num_slots: int
    prompt_length: int
    has_prefix_cache: bool
    prefill_chunk: int | None

    @property
    def schedule(self) -> Schedule:
        """How its engine schedules: nothing is kept free for what running requests may still need."""
        return Schedule(
            is_overlapped=not self.is_v1,
            prefill_chunk=self.prefill_chunk,
            promised=Fraction(0),
            has_prefix_cache=self.has_prefix_cache,
        )

    @property
    def drafts(self) -> tuple[SpecConfig, ...]:
        """What one iteration may draft: its tree, and a chain nothing too."""
        return (self.config, AT_REST) if self.config == CHAIN else (self.config,)

    def __str__(self) -> str:
        tree = "star" if self.config is STAR else "chain"
        cache = ", cached prefixes" if self.has_prefix_cache else ""
        chunk = "" if self.prefill_chunk is None else f", chunks of {self.prefill_chunk}"
        worker = "V1" if self.is_v1 else "V2"
        return f"{worker}, {tree}, pages of {self.page_size}, {self.num_slots} slots{cache}{chunk}"


def all_scopes() -> tuple[Scope, ...]:
    """Return every scope, small pools first."""
    return tuple(sorted((*_v1_scopes(), *_v2_scopes()), key=lambda scope: scope.num_slots))


def _v1_scopes() -> Iterator[Scope]:
    for config, page_size, has_cache in product((STAR, CHAIN), (1, 2), (False, True)):
        for num_slots in V1_SLOTS:
            if num_slots % page_size == 0:
                yield _scope(True, config, page_size, num_slots, has_cache)


def _v2_scopes() -> Iterator[Scope]:
    for config, page_size, has_cache in product((STAR, CHAIN), (1, 2), (False, True)):
        reserve = 2 * decode_allocation(config.topk, config.num_steps, config.num_draft_tokens)
        reserved = NUM_REQUESTS * (PROMPT + reserve)
        for num_slots in range(reserved + NARROWEST, reserved + WIDEST + 1, page_size):
            yield _scope(False, config, page_size, num_slots, has_cache)


def _scope(is_v1: bool, config: SpecConfig, page_size: int, num_slots: int, has_cache: bool) -> Scope:
    """Return a scope; one pool in four runs prompts in chunks."""
    prompt_length = LONG_PROMPT[page_size] if has_cache else PROMPT if is_v1 else PROMPT + page_size - 1
    chunk = 2 * page_size - 1 if num_slots // page_size % 4 == 3 else None
    return Scope(is_v1, config, page_size, num_slots, prompt_length, has_cache, chunk)
