"""Histories of accepted drafts, ranges of batch sizes, and controllers in any state."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot, AdaptiveState

MOST_STEPS = 8


@dataclass(frozen=True)
class AdaptiveCase:
    """A controller's range in some state, and the accepted drafts of verifies to come, one list a verify."""

    state: AdaptiveState
    slot: AdaptiveSlot
    config: AdaptiveConfig
    history: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Route:
    """A batch, the batch sizes of the graphs, and those that name a range."""

    batch_size: int
    graph_sizes: tuple[int, ...]
    slot_sizes: tuple[int, ...]


def eighths(low: int, high: int) -> SearchStrategy[float]:
    """Draw a multiple of 1/8."""
    return st.integers(low * 8, high * 8).map(lambda number: number / 8)


@st.composite
def adaptive_cases(draw: DrawFn) -> AdaptiveCase:
    """Draw a range whose hysteresis may be negative, wide or crossed, and a short history."""
    candidates = tuple(sorted(draw(st.sets(st.integers(1, MOST_STEPS), min_size=1, max_size=4))))
    slot = AdaptiveSlot(1, candidates, down=draw(eighths(-1, 1)), up=draw(eighths(-1, 1)))
    config = AdaptiveConfig(
        (slot,),
        alpha=draw(st.sampled_from((0.2, 0.25, 0.5, 1.0))),
        warmup=draw(st.integers(0, 4)),
        interval=draw(st.integers(1, 3)),
        ceiling=draw(st.sampled_from((0.0, 0.5, 1.0, 2.0))),
    )
    state = AdaptiveState(draw(st.sampled_from(candidates)), draw(eighths(0, MOST_STEPS)), draw(st.integers(0, 6)))
    verify = st.lists(st.integers(0, MOST_STEPS), max_size=3).map(tuple)
    return AdaptiveCase(state, slot, config, tuple(draw(st.lists(verify, min_size=1, max_size=12))))


@st.composite
def routes(draw: DrawFn) -> Route:
    """Draw a batch and where it may be routed."""
    sizes = st.sets(st.integers(1, 16), max_size=4).map(lambda found: tuple(sorted(found)))
    return Route(draw(st.integers(1, 20)), draw(sizes), draw(sizes.filter(bool)))
