"""What a machine is built of: a run whose requests are asked for as it goes, and how much room there is for them."""

from dataclasses import dataclass
from typing import Any

from specsim.config import MOST_PACKED_NODES, PoolSizes, SpecConfig
from specsim.counts import ceil_to, path_width
from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot
from specsim.properties.runs.scenario import Adapting, Course, Drafting, Room, Scenario
from specsim.simulation.memory import required_row_width
from specsim.simulation.models.description import Side
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.moving import sides_that_move
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import decode_sizes, most_seen
from specsim.simulation.schedule import IN_TURN, Schedule

AT_REST = SpecConfig(topk=1, num_steps=0, num_draft_tokens=1)

EVERY_SIZE = 1
"""Requests from which on a batch has steps that adapt, unless it rests by its size."""


@dataclass(frozen=True)
class Texts:
    """What requests of a machine may be.

    Parameters
    ----------
    longest_prompt, longest_output : int
        Tokens of a request at most.
    shared : tuple of int
        How prompts may begin.
    has_sampling, has_constraints : bool
        Whether requests may be sampled, and have grammars and processors.
    is_brief : bool
        Whether prompts are either hardly a token or nearly all of what is shared, and outputs end at once: the next
        owner of a row has found positions in the cache at which the last one still writes.
    """

    longest_prompt: int = 8
    longest_output: int = 12
    shared: tuple[int, ...] = ()
    has_sampling: bool = False
    has_constraints: bool = False
    is_brief: bool = False

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return self.longest_prompt + self.longest_output


@dataclass(frozen=True)
class Setup(Scenario):
    """A machine before its first action: a run without arrivals, as its requests are asked for while it runs.

    Parameters
    ----------
    others : tuple
        Sizes of the drafts of engines that may go on in the same pools and rows.
    num_actions : int
        Actions before the machine is only stepped until nothing is left to do.
    compares_drafts : bool
        Whether requests have to draft and accept what they do alone; in lockstep they have to anyway.
    is_padded : bool
        Whether forwards run on padded batches, to buckets that change; with two ranks, as these agree.
    """

    texts: Texts = Texts()
    others: tuple[Any, ...] = ()
    num_actions: int = 100
    compares_drafts: bool = False
    is_padded: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether another rank runs beside the one that is tried, in whose forwards it takes part."""
        return self.ranks.num_ranks > 1

    @property
    def has_parameters(self) -> bool:
        """Whether its worker takes parameters of its algorithm in the place of sizes."""
        return not isinstance(self.drafting.sizes, SpecConfig)

    @property
    def candidates(self) -> tuple[int, ...]:
        """Numbers of steps that an iteration may have; empty where it has always those of the sizes."""
        return () if self.drafting.adapting is None else self.drafting.adapting.config.slots[0].candidates

    @property
    def drafts_are_independent(self) -> bool:
        """Whether what a request drafts and verifies depends on its text alone, not on what runs beside and before."""
        is_scheduled = self.schedule.verification is not None
        changes = self.candidates or self.others or self.schedule.clips_drafts or is_scheduled
        return not (changes or self.drafter.has_memory or self.drafter.cuts_by_company)

    @property
    def configs(self) -> tuple[SpecConfig, ...]:
        """The sizes of all engines that may run in these pools."""
        return self.config, *map(config_of, self.others)

    @property
    def moving_sides(self) -> set[Side]:
        """The sides whose entries move between slots, which a pool of another kind does not do."""
        kinds = (sides_that_move(one.topk, self.room.page_size, self.is_v1) for one in self.configs)
        return {side for sides in kinds for side in sides}

    @property
    def has_big_drafts(self) -> bool:
        """Whether drafts have more nodes than one word of a mask holds."""
        return self.config.num_draft_tokens > MOST_PACKED_NODES

    @property
    def widths(self) -> dict[str, Any]:
        """Rows that a request has in the forwards of a draft, as a ``PaddedModel`` takes them."""
        config = self.config
        extend_width = path_width(config.num_steps) if self.is_v1 else config.num_draft_tokens
        return {"extend_width": extend_width, "frozen_width": config.topk}

    @property
    def row_width(self) -> int:
        """The slots that the longest request has at most in its row."""
        sizes = map(decode_sizes, self.configs)
        return max(required_row_width(self.texts.longest, one, self.room.page_size) for one in sizes)

    @property
    def num_slots_of_longest(self) -> int:
        """The slots of the pages of the longest request."""
        return ceil_to(self.row_width, self.room.page_size)

    @property
    def num_at_once(self) -> int:
        """The longest requests that have rows and slots together."""
        return min(self.room.max_batch, 1 + self._num_spare_slots // self.num_slots_of_longest)

    def with_spare(self, num_requests: int, num_slots: int = 0) -> "Setup":
        """Return the same machine with slots for so many of the longest requests beside one, and some more."""
        return self.having(num_spare_slots=num_requests * self.num_slots_of_longest + num_slots)

    def undisturbed(self, count: int) -> "Setup":
        """Return a machine on which so many requests run at once, slot by slot and in turn, with room for all."""
        # NOTE: prompts are not run in chunks here, so that a window reaches further than it does on the machine.
        plain = self.having(page_size=1, schedule=IN_TURN, adapting=None, others=(), max_batch=count)
        return plain.with_spare(count - 1)

    def sizes(self) -> PoolSizes:
        """Return pools in which every request finds room alone, and all of them perhaps not together.

        SWA slots are scarcer than others where windows are small, and run out first.
        """
        longest, most = self.texts.longest, self.num_slots_of_longest
        size, window = self.room.page_size, window_of(self.model)
        num_slots = ceil_to(self.row_width + self._num_spare_slots, size) + size
        num_seen = max(most_seen(config, most, longest, window, size, self.schedule) for config in self.configs)
        num_at_once = 1 + self._num_spare_slots // most
        num_swa_slots = num_at_once * ceil_to(num_seen, size) + size if window else 0
        return PoolSizes(num_slots, self.room.max_batch + 1, self.row_width, size, num_swa_slots)

    @property
    def _num_spare_slots(self) -> int:
        return self.room.num_spare_slots or 0


def setup_of(sizes: Any, model: HashModel, max_batch: int, schedule: Schedule, **changes: Any) -> Setup:
    """Return a machine of EAGLE on V2 with room for one of its longest requests, unless ``changes`` say otherwise."""
    return Setup(Drafting(sizes), model, Room(max_batch, 0, num_spare_slots=0), (), Course(schedule)).having(**changes)


def config_of(sizes: Any) -> SpecConfig:
    """Return the sizes of the drafts of a worker, by what it takes."""
    config: SpecConfig = sizes if isinstance(sizes, SpecConfig) else sizes.config
    return config


def adapting_among(candidates: tuple[int, ...], rests_from: int = 0) -> Adapting:
    """Return what decides about the number of steps, early and often.

    Parameters
    ----------
    candidates : tuple of int
        Numbers of steps that an iteration may have.
    rests_from : int
        Requests from which on a batch takes no step, whatever smaller ones do; 0 where there is no such number.
    """
    at_rest = (AdaptiveSlot(rests_from, (0,)),) if rests_from else ()
    slots = (AdaptiveSlot(EVERY_SIZE, candidates), *at_rest)
    return Adapting(AdaptiveConfig(slots, warmup=2, interval=2), candidates[-1])
