"""Prompts and budgets, lengths of rows, crowded batches, results that come late, and queues of work."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.streams import StreamEvent

PAGE_SIZES = (1, 4, 16, 64)


@dataclass(frozen=True)
class Chunking:
    """A prompt, and what every turn has room for."""

    num_left: int
    budget: int | None
    page_size: int


@dataclass(frozen=True)
class Row:
    """Lengths of a request before a decode."""

    num_committed: int
    num_allocated: int
    reserve: int
    page_size: int


@dataclass(frozen=True)
class Crowd:
    """Free slots, and for each request of a batch what its next decode takes and what it owns."""

    num_free: int
    needed: tuple[int, ...]
    owned: tuple[int, ...]


@dataclass(frozen=True)
class Lateness:
    """What a result finds of its request."""

    num_retractions_at_launch: int
    num_retractions: int
    has_finished: bool


def chunkings() -> SearchStrategy[Chunking]:
    """Draw a prompt that often takes several turns."""
    sizes = st.sampled_from(PAGE_SIZES)
    return sizes.flatmap(
        lambda page_size: st.builds(
            Chunking,
            num_left=st.integers(1, 5 * page_size + 3),
            budget=st.one_of(st.none(), st.integers(0, 3 * page_size + 2)),
            page_size=st.just(page_size),
        )
    )


@st.composite
def decode_rows(draw: DrawFn) -> Row:
    """Draw a row that holds little, everything or more than the next decode asks for."""
    committed, reserve = draw(st.integers(1, 100)), 2 * draw(st.integers(1, 20))
    allocated = draw(st.integers(committed, committed + 2 * reserve))
    page_size = draw(st.sampled_from(PAGE_SIZES))
    return Row(committed, -(-allocated // page_size) * page_size, reserve, page_size)


@st.composite
def crowds(draw: DrawFn) -> Crowd:
    """Draw a batch that has room, that has to shrink, or whose last request finds none."""
    requests = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5))
    needed, owned = zip(*requests, strict=True)
    total = sum(needed)
    return Crowd(draw(st.sampled_from((0, total, max(0, total - 1), draw(st.integers(0, total + 1))))), needed, owned)


def latenesses() -> SearchStrategy[Lateness]:
    """Draw a result of a request that was never, once or often retracted, before or since."""
    return st.integers(0, 3).flatmap(
        lambda before: st.builds(Lateness, st.just(before), st.integers(before, 4), st.booleans())
    )


@st.composite
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
