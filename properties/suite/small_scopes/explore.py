"""Breadth first over every event: scope after scope, a level of each at a time."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from specsim.conformance.backend import Backend, load
from specsim.conformance.completed import Completed
from specsim.conformance.direct import Direct
from specsim.properties.suite.small_scopes.canonical import canonical
from specsim.properties.suite.small_scopes.copies import Copies
from specsim.properties.suite.small_scopes.events import Event, events_of, outcomes_of
from specsim.properties.suite.small_scopes.invariants import check, settle
from specsim.properties.suite.small_scopes.scopes import AT_REST, Scope
from specsim.properties.suite.small_scopes.state import MakeScheduler, State, World
from specsim.properties.suite.small_scopes.turns import begin_decode, happen
from specsim.properties.suite.small_scopes.twins import TwinParts
from specsim.simulation.events import Tag
from specsim.simulation.scheduler import Scheduler

SHORT = 5
"""Events of the histories that all scopes are tried with before any scope goes on."""

OFTEN = 3
"""Scopes in which two V2 requests run in one of so many states go on before the others."""

MOST_STATES = 10_000_000
"""Digests of so many states are a gigabyte."""

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Failed:
    """A state in which something does not hold, and the shortest history that leads to it."""

    scope: Scope
    history: tuple[Event, ...]
    error: str


@dataclass
class Explored:
    """What was seen of one scope.

    ``depth`` is the number of events of the longest shortest history, ``num_paired`` counts the states in which two
    V2 requests run.
    """

    scope: Scope
    num_states: int = 1
    num_transitions: int = 0
    num_merged: int = 0
    num_paired: int = 0
    depth: int = 0
    is_exhausted: bool = False
    events: Counter[str] = field(default_factory=Counter)
    reach: Counter[Tag] = field(default_factory=Counter)


class Exploration:
    """The states of a scope, level by level.

    Parameters
    ----------
    world : World
        What is tried, and how small it is.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.num_levels = 0
        self.explored = Explored(world.scope, events=world.events, reach=world.reach.counts)
        self._copies = Copies((*world.fixed, *world.operations.classes()))
        start = world.start()
        self._seen = {canonical(world, start)}
        self._came: list[tuple[int, Event]] = [(-1, Event("start"))]
        self._frontier: list[tuple[int, bytes]] = [(0, self._copies.freeze(start))]

    def next_level(self, has_room: Callable[[], bool]) -> Failed | None:
        """Let every event happen in every state of the frontier; return the first failure.

        Parameters
        ----------
        has_room : callable
            Whether to go on.
        """
        after: list[tuple[int, bytes]] = []
        for number, frozen in self._frontier:
            if not has_room():
                return None
            for begun, event in self._events(frozen):
                failed = self._follow(number, begun, event, after)
                if failed is not None:
                    return failed
        self._frontier = after
        self.num_levels += 1
        self.explored.is_exhausted = not after
        self.explored.depth += bool(after)
        return None

    def _events(self, frozen: bytes) -> Iterator[tuple[bytes | Exception, Event]]:
        """Yield every event of a state, and where it begins: all outcomes of a decode begin alike."""
        state: State = self._copies.thaw(frozen)
        yield from ((frozen, event) for event in list(events_of(self.world, state)))
        if not state.scheduler.running:
            return
        for config in self.world.scope.drafts:
            state = self._copies.thaw(frozen)
            try:
                begin_decode(self.world, state, config)
            except Exception as error:  # NOTE: parts under test may raise anything at all.
                yield error, Event("decode", rests=config == AT_REST)
                return
            begun = self._copies.freeze(state)
            yield from ((begun, event) for event in outcomes_of(state, config))

    def _follow(
        self, number: int, begun: bytes | Exception, event: Event, after: list[tuple[int, bytes]]
    ) -> Failed | None:
        explored = self.explored
        explored.num_transitions += 1
        explored.events[event.kind] += 1
        explored.events["rest"] += event.rests
        try:
            if isinstance(begun, Exception):
                raise begun
            state: State = self._copies.thaw(begun)
            happen(self.world, state, event)
            check(self.world, state)
        except Exception as error:
            return Failed(explored.scope, (*self._history(number), event), f"{type(error).__name__}: {error}")
        settle(self.world, state)
        form = canonical(self.world, state)
        if form in self._seen:
            explored.num_merged += 1
            return None
        self._seen.add(form)
        explored.num_states += 1
        explored.num_paired += not explored.scope.is_v1 and state.num_running > 1
        self._came.append((number, event))
        after.append((len(self._came) - 1, self._copies.freeze(state)))
        return None

    def _history(self, number: int) -> tuple[Event, ...]:
        events: list[Event] = []
        while number:
            number, event = self._came[number]
            events.append(event)
        return tuple(reversed(events))


def _scheduler_of(implementation: Backend) -> MakeScheduler:
    """Return the scheduler of an implementation if it is built on ours, whose choices are stated here, else ours."""
    own = implementation.scheduler
    is_built_on_ours = own is not None and (not isinstance(own, type) or issubclass(own, Scheduler))
    return own if own is not None and is_built_on_ours else Scheduler


def _turn_of(one: Exploration) -> tuple[int, int]:
    """Return when a scope is due: short histories of all scopes, then those in which two V2 requests often run."""
    if one.num_levels < SHORT:
        return 0, one.num_levels
    num_paired = one.explored.num_paired
    is_often_paired = num_paired * OFTEN >= one.explored.num_states
    return 1 if is_often_paired else 2 if num_paired else 3, one.num_levels


@dataclass
class Result:
    """What was seen of all scopes."""

    explored: list[Explored]
    failed: Failed | None = None
    seconds: float = 0.0
    is_interrupted: bool = False

    @property
    def num_states(self) -> int:
        """States of all scopes, each counted once."""
        return sum(one.num_states for one in self.explored)

    @property
    def rate(self) -> float:
        """States a second."""
        return self.num_states / self.seconds if self.seconds else 0.0

    @property
    def num_transitions(self) -> int:
        """Events that happened, in all states together."""
        return sum(one.num_transitions for one in self.explored)

    @property
    def num_merged(self) -> int:
        """Those of them that led to a state that was known."""
        return sum(one.num_merged for one in self.explored)

    @property
    def depth(self) -> int:
        """Events of the longest of all shortest histories."""
        return max((one.depth for one in self.explored), default=0)

    @property
    def events(self) -> dict[str, int]:
        """How often each kind of event happened, those included that are part of another one."""
        events = sum((one.events for one in self.explored), Counter[str]())
        reach = sum((one.reach for one in self.explored), Counter[Tag]())
        inside = {
            "finish": reach[Tag.FINISH],
            "prefix hit": reach[Tag.PREFIX],
            "chunk": reach[Tag.CHUNK],
            "late result": reach[Tag.LATE] + reach[Tag.ZOMBIE],
            "row used again": reach[Tag.HISTORY],
        }
        return dict(sorted({**events, **inside}.items()))

    @property
    def num_paired(self) -> int:
        """Those of them in which two V2 requests run."""
        return sum(one.num_paired for one in self.explored)

    @property
    def is_exhausted(self) -> bool:
        """Whether no scope has a state whose events have not all happened."""
        return all(one.is_exhausted for one in self.explored)


def explore(
    implementation: Backend,
    scopes: Sequence[Scope],
    most_states: int = MOST_STATES,
    most_seconds: float = math.inf,
    most_events: int | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Explore some scopes until nothing is left, a bound is reached, something fails or the run is interrupted.

    Parameters
    ----------
    implementation : Backend
        Whose operations and parts are tried; the reference has what it lacks. Its scheduler is if it inherits from
        specsim's own.
    scopes : sequence of Scope
        A level of each is explored before the next level of any, up to histories of ``SHORT`` events; then the scopes
        in which two V2 requests run in one of ``OFTEN`` states go on first, and those last in which they never do.
        A failure has a shortest history of its scope.
    most_states, most_seconds : number
        Where to stop.
    most_events : int or None
        How long a history may be.
    """
    started = time.monotonic()
    reference = load("specsim.reference")
    is_reference = implementation.functions == reference.functions
    tried = Direct(reference) if is_reference else Completed(implementation, reference)
    operations, make_scheduler = TwinParts(tried, reference), _scheduler_of(implementation)
    result = Result([])
    waiting: list[Exploration] = []
    for scope in scopes:
        try:
            waiting.append(Exploration(World(scope, operations, make_scheduler)))
        except Exception as error:  # NOTE: parts under test may raise anything at all.
            result.failed = Failed(scope, (), f"{type(error).__name__}: {error}")
            return result
        result.explored.append(waiting[-1].explored)

    def has_room() -> bool:
        return result.num_states < most_states and time.monotonic() - started < most_seconds

    try:
        while waiting and result.failed is None and has_room():
            one = min(waiting, key=_turn_of)
            if one.num_levels == most_events:
                break
            result.failed = one.next_level(has_room)
            if on_progress is not None:
                on_progress(str(one.explored.scope), result.num_states, most_states)
            waiting = [one for one in waiting if not one.explored.is_exhausted]
    except KeyboardInterrupt:
        result.is_interrupted = True
    result.seconds = time.monotonic() - started
    return result
