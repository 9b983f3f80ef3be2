"""Prompts and budgets, results that come late, constrained batches, and queues of work."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.streams import StreamEvent
from specsim.properties.composite import composite

PAGE_SIZES = (1, 4, 16, 64)


@dataclass(frozen=True)
class Chunking:
    """A prompt, and what every turn has room for."""

    num_left: int
    budget: int | None
    page_size: int


@dataclass(frozen=True)
class Lateness:
    """What a result finds of its request."""

    num_retractions_at_launch: int
    num_retractions: int
    has_finished: bool


def chunkings() -> SearchStrategy[Chunking]:
    """Draw a prompt that often takes several turns."""

    def chunking(page_size: int) -> SearchStrategy[Chunking]:
        budget = st.one_of(st.none(), st.integers(0, 3 * page_size + 2))
        return st.builds(Chunking, st.integers(1, 5 * page_size + 3), budget, st.just(page_size))

    return st.sampled_from(PAGE_SIZES).flatmap(chunking)


def constraints() -> SearchStrategy[list[bool]]:
    """Draw a batch of which somebody, everybody or no one is constrained."""
    return st.lists(st.booleans(), max_size=5)


def latenesses() -> SearchStrategy[Lateness]:
    """Draw a result of a request that was never, once or often retracted, before or since."""
    return st.integers(0, 3).flatmap(
        lambda before: st.builds(Lateness, st.just(before), st.integers(before, 4), st.booleans())
    )


@composite
def queues(draw: DrawFn) -> tuple[StreamEvent, ...]:
    """Draw the events of a few launches: some write the map, all read it and write slots, at once or later."""
    events: list[StreamEvent] = []
    for launch in range(draw(st.integers(1, 4))):
        events += [StreamEvent(launch, writes_map=True)] * draw(st.integers(0, 2))
        if draw(st.booleans()):
            events.append(StreamEvent(launch, reads_map=True, writes_slots=True))
        else:
            events += [StreamEvent(launch, reads_map=True), StreamEvent(launch, writes_slots=True)]
    return tuple(events)
