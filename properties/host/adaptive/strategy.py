"""Histories of accepted drafts, ranges of batch sizes, and controllers in any state."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.host.adaptive import AdaptiveConfig, AdaptiveSlot, AdaptiveState
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import mostly

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


def adaptive_cases() -> SearchStrategy[tuple[AdaptiveCase, ...]]:
    """Return a strategy of controllers with any history, and of some that are about to decide near a threshold."""
    return st.tuples(any_history(), *(near_a_threshold() for _ in range(3)))


@composite
def any_history(draw: DrawFn) -> AdaptiveCase:
    """Draw a range whose hysteresis may be negative, wide or crossed, and a short history."""
    candidates = tuple(sorted(draw(st.sets(st.integers(0, MOST_STEPS), min_size=1, max_size=4))))
    slot = AdaptiveSlot(1, candidates, down=draw(eighths(-1, 1)), up=draw(eighths(-1, 1)))
    config = draw(_configs(slot))
    state = AdaptiveState(draw(st.sampled_from(candidates)), draw(eighths(-1, MOST_STEPS)), draw(st.integers(0, 6)))
    return AdaptiveCase(state, slot, config, tuple(draw(st.lists(_verifies(), min_size=1, max_size=12))))


@composite
def near_a_threshold(draw: DrawFn) -> AdaptiveCase:
    """Draw a controller whose first verify brings the average beside a threshold, at a decision or just before one.

    With crossed hysteresis an average lies below the threshold downward and above the one upward of one candidate.
    """
    candidates = tuple(sorted(draw(st.sets(st.integers(0, MOST_STEPS), min_size=2, max_size=4))))
    up = draw(eighths(-1, 1))
    down = draw(mostly(eighths(0, 1).map(lambda crossed: up + crossed), eighths(-1, 1), one_in=3))
    slot = AdaptiveSlot(1, candidates, down=down, up=up)
    config = replace(draw(_configs(slot)), alpha=0.5)
    threshold = draw(st.sampled_from(candidates)) - 0.5 + draw(st.sampled_from((up, down)))
    average = max(-0.75, threshold + draw(st.sampled_from((0.125, 0.0, -0.125))))
    mean = max(0, int(average))
    decisions = draw(st.sampled_from((1, 2, 0)))
    count = max(0, config.warmup + decisions * config.interval - 1)
    state = AdaptiveState(draw(st.sampled_from(candidates)), 2 * average - mean, count)
    return AdaptiveCase(state, slot, config, ((mean,), *draw(st.lists(_verifies(), max_size=3))))


@composite
def routes(draw: DrawFn) -> Route:
    """Draw a batch, the graph that it is padded to, and ranges that start about there."""
    batch_size = draw(st.integers(1, 16))
    padded = batch_size + draw(mostly(st.integers(1, 4), st.just(0), one_in=4))
    graph_sizes = {padded, *draw(st.sets(st.integers(1, 24), max_size=3))} if draw(_mostly_true()) else ()
    near = st.sampled_from(sorted({batch_size, batch_size + 1, padded, padded + 1, max(1, padded - 1)}))
    slot_sizes = draw(st.sets(st.one_of(near, st.integers(1, 16)), min_size=1, max_size=4))
    return Route(batch_size, tuple(sorted(graph_sizes)), tuple(sorted(slot_sizes)))


def several_routes() -> SearchStrategy[list[Route]]:
    """Return a strategy of a few routes."""
    return st.lists(routes(), min_size=2, max_size=4)


@composite
def _configs(draw: DrawFn, slot: AdaptiveSlot) -> AdaptiveConfig:
    return AdaptiveConfig(
        (slot,),
        alpha=draw(st.sampled_from((0.2, 0.25, 0.5, 1.0))),
        warmup=draw(st.integers(0, 4)),
        interval=draw(st.integers(1, 3)),
        ceiling=draw(st.sampled_from((0.0, 0.5, 1.0, 2.0))),
    )


def _verifies() -> SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, MOST_STEPS), max_size=3).map(tuple)


def _mostly_true() -> SearchStrategy[bool]:
    return mostly(st.just(True), st.just(False), one_in=6)
