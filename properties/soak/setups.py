"""What a machine is built of: the shape of drafts, the model, the batch, the schedule, and how much room there is."""

from dataclasses import dataclass, field, replace
from typing import Any

from specsim.algorithms import DRAFTERS, Drafter
from specsim.config import MOST_PACKED_NODES, PoolSizes, SpecConfig
from specsim.counts import ceil_to, path_width
from specsim.host.acceptance import Acceptance
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot
from specsim.properties.soak.drafters import EAGLE
from specsim.simulation.memory import required_row_width
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import decode_sizes, most_seen
from specsim.simulation.schedule import Schedule

AT_REST = SpecConfig(topk=1, num_steps=0, num_draft_tokens=1)

EVERY_SIZE = 1
"""Requests from which on a batch has steps that adapt, unless it rests by its size."""


@dataclass(frozen=True)
class Setup:
    """A machine before its first action.

    Parameters
    ----------
    other_draftings : tuple
        Sizes of the drafts of engines that may go on in the same pools and rows.
    candidates : tuple of int
        Numbers of steps that an iteration may have; empty where it has always those of the configuration.
    rests_from : int
        Requests from which on a batch takes no step, whatever smaller ones do; 0 where there is no such number.
    longest_prompt, longest_output : int
        Tokens of a request at most.
    num_spare_slots : int
        What the pool has beyond the largest request.
    has_sampling, has_constraints : bool
        Whether requests may be sampled, and have grammars and processors.
    num_actions : int
        Actions before the machine is only stepped until nothing is left to do.
    shared : tuple of int
        How prompts may begin.
    compares_drafts : bool
        Whether requests have to draft and accept what they do alone; in lockstep they have to anyway.
    algorithm : str
        What drafts: a name of ``DRAFTERS``, or of a drafter that the module brings.
    brought : Drafter or None
        The record of a drafter that the module brings.
    acceptance : Acceptance
        By which rule the drafts of sampled requests are accepted.
    parameters : object or None
        What the worker of an algorithm takes in the place of sizes, which are those of ``config``.
    is_padded : bool
        Whether forwards run on padded batches, to buckets that change.
    is_ranked : bool
        Whether another rank runs beside the one that is tried, in whose forwards it takes part.
    is_brief : bool
        Whether prompts are either hardly a token or nearly all of what is shared, and outputs end at once: the next
        owner of a row has found positions in the cache at which the last one still writes.
    """

    config: SpecConfig
    model: HashModel
    max_batch: int
    schedule: Schedule
    is_v1: bool = False
    other_draftings: tuple[Any, ...] = ()
    candidates: tuple[int, ...] = ()
    rests_from: int = 0
    longest_prompt: int = 8
    longest_output: int = 12
    num_spare_slots: int = 0
    shuffle_seed: int = 0
    has_sampling: bool = False
    has_constraints: bool = False
    num_actions: int = 100
    page_size: int = 1
    shared: tuple[int, ...] = ()
    compares_drafts: bool = False
    is_brief: bool = False
    is_padded: bool = False
    is_ranked: bool = False
    algorithm: str = EAGLE
    parameters: Any = None
    brought: Drafter | None = field(default=None, repr=False)
    acceptance: Acceptance = Acceptance.TOKEN

    @property
    def drafter(self) -> Drafter:
        """What drafts."""
        return self.brought or DRAFTERS[self.algorithm]

    @property
    def worker_name(self) -> str:
        """The name of the worker that runs."""
        return self.drafter.worker_name(self.is_v1)

    @property
    def drafting(self) -> Any:
        """What a worker takes of its drafts: their sizes, or what its algorithm takes in their place."""
        return self.config if self.parameters is None else self.parameters

    @property
    def drafts_are_independent(self) -> bool:
        """Whether what a request drafts and verifies depends on its text alone, not on what runs beside and before."""
        is_scheduled = self.schedule.verification is not None
        changes = self.candidates or self.other_draftings or self.schedule.clips_drafts or is_scheduled
        return not (changes or self.drafter.has_memory or self.drafter.cuts_by_company)

    @property
    def rule(self) -> dict[str, Acceptance]:
        """What a worker takes of the rule of acceptance by keyword, nothing of the one that every worker has."""
        return {} if self.acceptance is Acceptance.TOKEN else {"acceptance": self.acceptance}

    @property
    def configs(self) -> tuple[SpecConfig, ...]:
        """The sizes of all engines that may run in these pools."""
        return self.config, *map(config_of, self.other_draftings)

    @property
    def has_big_drafts(self) -> bool:
        """Whether drafts have more nodes than one word of a mask holds."""
        return self.config.num_draft_tokens > MOST_PACKED_NODES

    @property
    def num_at_once(self) -> int:
        """The longest requests that have rows and slots together."""
        most = ceil_to(self._row_width, self.page_size)
        return min(self.max_batch, 1 + self.num_spare_slots // most)

    @property
    def widths(self) -> dict[str, Any]:
        """Rows that a request has in the forwards of a draft, as a ``PaddedModel`` takes them."""
        config = self.config
        extend_width = path_width(config.num_steps) if self.is_v1 else config.num_draft_tokens
        return {"extend_width": extend_width, "frozen_width": config.topk}

    def under(self, drafting: Any) -> "Setup":
        """Return the same machine with another engine in it."""
        config = config_of(drafting)
        return replace(self, config=config, parameters=None if drafting is config else drafting)

    def sizes(self) -> PoolSizes:
        """Return pools in which every request finds room alone, and all of them perhaps not together.

        SWA slots are scarcer than others where windows are small, and run out first.
        """
        longest, width = self.longest_prompt + self.longest_output, self._row_width
        size, window = self.page_size, window_of(self.model)
        most = ceil_to(width, size)
        num_slots = ceil_to(width + self.num_spare_slots, size) + size
        num_seen = max(most_seen(config, most, longest, window, size, self.schedule) for config in self.configs)
        num_swa_slots = (1 + self.num_spare_slots // most) * ceil_to(num_seen, size) + size if window else 0
        return PoolSizes(num_slots, self.max_batch + 1, width, size, num_swa_slots)

    @property
    def _row_width(self) -> int:
        """The slots that the longest request has at most in its row."""
        longest = self.longest_prompt + self.longest_output
        return max(row_width_of(config, longest, self.page_size) for config in self.configs)

    def controller(self) -> AdaptiveController | None:
        """Return what decides about the number of steps, early and often, where it changes."""
        if not self.candidates:
            return None
        at_rest = (AdaptiveSlot(self.rests_from, (0,)),) if self.rests_from else ()
        slots = (AdaptiveSlot(EVERY_SIZE, self.candidates), *at_rest)
        return AdaptiveController(self.candidates[-1], AdaptiveConfig(slots, warmup=2, interval=2))


def config_of(drafting: Any) -> SpecConfig:
    """Return the sizes of the drafts of a worker."""
    return drafting if isinstance(drafting, SpecConfig) else drafting.config


def row_width_of(config: SpecConfig, longest: int, page_size: int) -> int:
    """Return the slots that a request of so many positions has at most in its row."""
    return required_row_width(longest, decode_sizes(config), page_size)
