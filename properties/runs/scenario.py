"""A run as one frozen record: what drafts, which model, how much room, in which order, and what is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

from specsim.algorithms import DRAFTERS, Drafter
from specsim.config import PoolSizes, SpecConfig
from specsim.conformance.backend import Backend
from specsim.host.acceptance import Acceptance
from specsim.host.adaptive import AdaptiveConfig, AdaptiveController, AdaptiveSlot, AdaptiveState
from specsim.host.logit_rules import LogitRules
from specsim.host.sampling import SamplingParameters
from specsim.properties.runs.choices import Automaton, OfLength, Shifted
from specsim.simulation.models.confidence import TableHead
from specsim.simulation.models.hash_model import HashModel
from specsim.simulation.models.toys import window_of
from specsim.simulation.pools import most_positions, most_seen, sizes_for
from specsim.simulation.requests import Request
from specsim.simulation.schedule import IN_TURN, Schedule

RecordT = TypeVar("RecordT")

AFTER_ALL = 1 << 20
"""The step of a request that comes when all others have ended."""


@dataclass(frozen=True)
class Adapting:
    """How many steps iterations draft: what a controller decides, or a pattern, again and again, if there is one."""

    config: AdaptiveConfig
    initial_steps: int
    graph_sizes: tuple[int, ...] = ()
    pattern: tuple[int, ...] = ()

    def controller(self, backend: Backend | None) -> AdaptiveController:
        """Return a controller that decides as an implementation does."""
        parts = {} if backend is None else {"route": backend.host("route_batch_size")}
        if self.pattern:
            parts = {"adapt": self._follow}
        elif backend is not None:
            parts["adapt"] = backend.host("adapt_num_steps")
        return AdaptiveController(self.initial_steps, self.config, self.graph_sizes, **parts)

    def num_steps(self, number: int) -> int:
        """Return how many steps an iteration drafts by the pattern, by its number."""
        return self.pattern[number % len(self.pattern)]

    def _follow(
        self, state: AdaptiveState, num_accepted_drafts: Sequence[int], slot: AdaptiveSlot, config: AdaptiveConfig
    ) -> AdaptiveState:
        """Return the state before the next iteration, whatever was accepted."""
        del num_accepted_drafts, slot, config
        return replace(state, num_steps=self.num_steps(state.count + 1), count=state.count + 1)


@dataclass(frozen=True)
class Drafting:
    """What drafts, on which worker, and how its drafts are judged.

    ``sizes`` is what the worker takes first: sizes of drafts, or what its algorithm takes in their place.
    ``brought`` is the record of a drafter that the implementation brings, where it is none of ours.
    """

    sizes: Any
    drafter: str = "EAGLE"
    is_v1: bool = False
    acceptance: Acceptance = Acceptance.TOKEN
    adapting: Adapting | None = None
    head: TableHead | None = None
    brought: Drafter | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Room:
    """Rows, pages and slots.

    ``num_spare_slots`` is what the pool has beyond the largest request, None for room for ``max_batch`` of them;
    ``num_spare_swa_slots`` is what the SWA pool then has beyond what the largest one holds at once.
    """

    max_batch: int
    shuffle_seed: int
    page_size: int = 1
    num_spare_slots: int | None = None
    num_spare_swa_slots: int = 0


@dataclass(frozen=True)
class Course:
    """How a run is scheduled, and what is done to its requests on the way.

    ``aborts`` name a step and a request, ``retractions`` a step and a place among those that hold a row then. What
    leaves the engine arrives ``lag`` steps later.
    """

    schedule: Schedule = IN_TURN
    aborts: tuple[tuple[int, int], ...] = ()
    retractions: tuple[tuple[int, int], ...] = ()
    lag: int = 0


@dataclass(frozen=True)
class Ranks:
    """Who runs at the same time: so many ranks, to which requests are dealt ``at_a_time``, none to ``idle``.

    Forwards that are padded have as many rows as a group of ``shares`` can share, or those of buckets without one.
    Requests of the last rank come after ``late`` forwards of the others, if it is given.
    """

    num_ranks: int = 1
    idle: int | None = None
    at_a_time: int = 1
    shares: tuple[int, int] | None = None
    late: int | None = None


@dataclass(frozen=True)
class Arrival:
    """One request, and the step before which it is submitted, or earlier if nothing else is left to do.

    ``top_logprobs`` is how many alternatives it gets beside the scores of its tokens, None for no scores.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    eos_token: int | None = None
    step: int = 0
    top_logprobs: int | None = None
    returns_hidden_states: bool = False
    token_ids_logprob: tuple[int, ...] = ()
    has_original_logprobs: bool = False
    stop_tokens: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    min_new_tokens: int = 0
    context_limit: int | None = None
    sampling: SamplingParameters | None = None
    processor: Shifted | None = None
    grammar: Automaton | OfLength | None = None
    logit_rules: LogitRules | None = None

    def unreported(self) -> "Arrival":
        """Return the same request without scores and hidden states."""
        return replace(self, top_logprobs=None, returns_hidden_states=False)

    def request(self, number: int) -> Request:
        """Return a fresh request of a number."""
        asked = {one.name: vars(self)[one.name] for one in fields(self) if one.name not in ("step", "grammar")}
        return Request(number, grammar=None if self.grammar is None else self.grammar.start, **asked)


@dataclass(frozen=True)
class Scenario:
    """A run from the first request to the last token."""

    drafting: Drafting
    model: HashModel
    room: Room
    arrivals: tuple[Arrival, ...]
    course: Course = Course()
    ranks: Ranks = Ranks()

    @property
    def config(self) -> SpecConfig:
        """The sizes of an iteration."""
        sizes = self.drafting.sizes
        config: SpecConfig = sizes if isinstance(sizes, SpecConfig) else sizes.config
        return config

    @property
    def drafter(self) -> Drafter:
        """What drafts."""
        return self.drafting.brought or DRAFTERS[self.drafting.drafter]

    @property
    def is_v1(self) -> bool:
        """Whether the worker allocates, frees and ends requests inside an iteration."""
        return self.drafting.is_v1

    @property
    def worker_name(self) -> str:
        """The name of the worker."""
        return self.drafter.worker_name(self.is_v1)

    @property
    def schedule(self) -> Schedule:
        """How the engine is scheduled."""
        return self.course.schedule

    @property
    def largest(self) -> int:
        """Positions that the largest request can come to own."""
        return max(most_positions(self.config, request, self.room.page_size) for request in self.requests())

    def having(self, **changes: Any) -> Self:
        """Return a run in which some fields are others, by their names: its own, or those of any record in it.

        Raises
        ------
        TypeError
            No record has a field of a name.
        """
        left = dict(changes)
        changed = _changed(self, left)
        if left:
            raise TypeError(f"no record of a scenario has {', '.join(left)}")
        return changed

    def asking(self, **changes: Any) -> Self:
        """Return a run all of whose requests have some other fields."""
        return self.having(arrivals=tuple(replace(one, **changes) for one in self.arrivals))

    def alone(self, number: int) -> Self:
        """Return the run of one of the requests alone, which nothing disturbs."""
        return self.having(arrivals=(self.arrivals[number],), max_batch=1, aborts=(), retractions=())

    def requests(self) -> list[Request]:
        """Return fresh requests, numbered in their order here."""
        return [arrival.request(number) for number, arrival in enumerate(self.arrivals)]

    def sizes(self) -> PoolSizes:
        """Return pools in which every request finds room alone, and all of them not always together."""
        requests, room, window = self.requests(), self.room, window_of(self.model)
        size = room.page_size
        roomy = sizes_for(self.config, requests, room.max_batch, size, window, self.schedule)
        if room.num_spare_slots is None:
            return roomy
        longest = max(len(one.prompt) + one.max_new_tokens for one in requests)
        num_seen = most_seen(self.config, self.largest, longest, window, size, self.schedule)
        num_slots, num_swa_slots = (
            (1 + -(-count // size)) * size
            for count in (self.largest + room.num_spare_slots, num_seen + room.num_spare_swa_slots)
        )
        return replace(roomy, num_slots=num_slots, num_swa_slots=num_swa_slots if window else 0)


def scenario_of(
    sizes: Any, model: HashModel, arrivals: Sequence[Arrival], max_batch: int, shuffle_seed: int, **changes: Any
) -> Scenario:
    """Return a run in turn, slot by slot, on the V2 worker of EAGLE, unless ``changes`` say otherwise."""
    return Scenario(Drafting(sizes), model, Room(max_batch, shuffle_seed), tuple(arrivals)).having(**changes)


def _changed(record: RecordT, changes: dict[str, Any]) -> RecordT:
    """Return a record with what is to change in it or in a record in it; take that out of ``changes``."""
    each: Any = record
    taken = {}
    for name in type(each).__dataclass_fields__ if changes else ():
        value = vars(each)[name]
        if name in changes:
            taken[name] = changes.pop(name)
        elif changes and hasattr(value, "__dataclass_fields__"):
            inside = _changed(value, changes)
            if inside is not value:
                taken[name] = inside
    changed: RecordT = replace(each, **taken) if taken else record
    return changed
