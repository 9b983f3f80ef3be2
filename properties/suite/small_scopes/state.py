"""One state of a small engine: the real scheduler with its memory, a device of tags, and what is in flight."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from specsim.config import PoolSizes
from specsim.host.metrics import RequestCounters
from specsim.host.streams import StreamEvent
from specsim.properties.suite.small_scopes.device import TagDevice
from specsim.properties.suite.small_scopes.scopes import NUM_REQUESTS, OUTPUT_LENGTHS, Scope
from specsim.properties.suite.small_scopes.texts import Texts
from specsim.properties.suite.small_scopes.twins import TwinParts
from specsim.simulation.events import Reach
from specsim.simulation.memory import Holding
from specsim.simulation.pools import decode_sizes
from specsim.simulation.requests import Request
from specsim.simulation.scheduler import Scheduler
from specsim.simulation.turns.launches import Launched
from specsim.simulation.turns.streams import Ticket
from specsim.simulation.worker import Iteration

MakeScheduler = Callable[..., Scheduler]

TICKET = Ticket(StreamEvent(0), run=lambda: None, waits_for=[], is_done=True)
"""What every launch has run as."""


@dataclass(frozen=True)
class InFlight:
    """A launch whose result the host does not know, and the result."""

    launched: Launched
    result: Iteration | list[int]


@dataclass
class State:
    """Everything that the next event may depend on.

    ``free_rows`` has the rows that no one has, in the order in which they were given back: the next request gets the
    first one.
    """

    scheduler: Scheduler
    device: TagDevice
    free_rows: list[int]
    in_flight: list[InFlight] = field(default_factory=list)

    @property
    def live(self) -> list[Request]:
        """The requests that have not ended."""
        return [*self.scheduler.holders, *self.scheduler.waiting]

    @property
    def num_running(self) -> int:
        """Requests of the decode batch."""
        return len(self.scheduler.running)


class World:
    """What all states of a scope share.

    Parameters
    ----------
    scope : Scope
        How small it is.
    operations : TwinParts
        What is tried: operations, host functions and parts.
    make_scheduler : callable
        Makes the scheduler.

    Attributes
    ----------
    events : Counter
        How often each kind of event happened, in all states together.
    reach : Reach
        How often each condition was met.
    """

    def __init__(self, scope: Scope, operations: TwinParts, make_scheduler: MakeScheduler = Scheduler) -> None:
        self.scope = scope
        self.operations = operations
        self.texts = Texts.of(scope)
        self.reach = Reach()
        self.events: Counter[str] = Counter()
        self.prompts = tuple(text[: scope.prompt_length] for text in self.texts.tokens)
        self.schedule = scope.schedule
        self.counters = RequestCounters()
        self._make_scheduler = make_scheduler
        self.sizes = decode_sizes(scope.config, allocates_ahead=not scope.is_v1)
        longest = scope.prompt_length + max(OUTPUT_LENGTHS)
        width = operations.host("required_row_width")(longest, self.sizes, scope.page_size)
        self.pools = PoolSizes(scope.num_slots + scope.page_size, NUM_REQUESTS + 1, width, scope.page_size)

    @property
    def fixed(self) -> tuple[object, ...]:
        """What no event changes."""
        return (self.operations, self.reach, self.pools, self.sizes, self.scope.config, self.schedule, TICKET)

    def start(self) -> State:
        """Return the state before the first event."""
        make = partial(self._make_scheduler, self.scope.config, self.pools, NUM_REQUESTS, self.operations)
        scheduler = make(allocates_ahead=not self.scope.is_v1, schedule=self.schedule, observer=self.reach)
        return State(scheduler, TagDevice.of(self.pools), list(range(1, NUM_REQUESTS + 1)))

    def request(self, number: int, length: int) -> Request:
        """Return a request whose output ends at a length: the longest by length, others by a stop token."""
        text, prompt_length = self.texts.tokens[number], self.scope.prompt_length
        prompt, longest = self.prompts[number], max(OUTPUT_LENGTHS)
        stops = () if length == longest else (text[prompt_length + length - 1],)
        holding = Holding(self.operations.host("Books")())
        return Request(number, prompt, longest, stop_tokens=stops, holding=holding, counters=self.counters)

    def output_length(self, request: Request) -> int:
        """Return where the output of a request ends."""
        if not request.stop_tokens:
            return request.max_new_tokens
        text = self.texts.tokens[request.request_id]
        return len(text[len(request.prompt) : text.index(request.stop_tokens[0])]) + len(request.stop_tokens)
