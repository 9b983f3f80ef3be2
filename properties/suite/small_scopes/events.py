"""Everything that can happen in a state."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from specsim.config import SpecConfig
from specsim.properties.suite.small_scopes.device import Path
from specsim.properties.suite.small_scopes.scopes import AT_REST, NUM_REQUESTS, OUTPUT_LENGTHS, PATHS
from specsim.properties.suite.small_scopes.state import State, World


class Event(NamedTuple):
    """What happens, to which request, and how.

    ``kind`` is ``admit``, ``prefill``, ``decode``, ``resolve``, ``retract`` or ``abort``. ``length`` is where the
    output of an admitted request ends, ``paths`` what a verification accepts of each request of the batch, which
    ``rests`` where nothing was drafted.
    """

    kind: str
    request: int = 0
    length: int = 0
    paths: tuple[Path, ...] = ()
    rests: bool = False

    def __str__(self) -> str:
        if self.kind == "admit":
            return f"admit request {self.request}, which ends at {self.length} output tokens"
        if self.kind == "decode":
            if self.rests:
                return "decode without a draft"
            return f"decode, accept {', '.join(map(str, self.paths))}"
        return self.kind if self.kind in ("prefill", "resolve") else f"{self.kind} request {self.request}"


def events_of(world: World, state: State) -> Iterator[Event]:
    """Yield every event that is possible, but for the outcomes of a verification: see ``outcomes_of``."""
    scheduler = state.scheduler
    live = {request.request_id: request for request in state.live}
    for number in range(NUM_REQUESTS):
        if number not in live:
            yield from (Event("admit", number, length) for length in OUTPUT_LENGTHS)
    if scheduler.waiting or scheduler.mid_prompt is not None:
        yield Event("prefill")
    if state.in_flight:
        yield Event("resolve")
    yield from (Event("retract", request.request_id) for request in scheduler.holders)
    yield from (Event("abort", number) for number, request in live.items() if not request.is_aborted)


def outcomes_of(begun: State, config: SpecConfig) -> Iterator[Event]:
    """Yield every outcome of a decode that has begun; there is one where no one was left to decode."""
    for paths in product(PATHS[config], repeat=begun.num_running):
        yield Event("decode", paths=paths, rests=config == AT_REST)
