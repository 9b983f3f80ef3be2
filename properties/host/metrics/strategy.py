"""Random histories of decode batches, as the log of events from which every figure can be counted by hand."""

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from specsim.counts import count_draft_nodes, path_width
from specsim.properties.composite import composite
from specsim.properties.strategies.arrays import mostly

Verify = tuple[int, int, int]
"""Drafts that a request was proposed, levels that they lie on, and drafts that were accepted."""


@dataclass(frozen=True)
class Row:
    """One request in one decode batch; a zombie ended in an earlier batch and is still in flight."""

    request: int
    num_accepted_drafts: int
    is_zombie: bool


@dataclass(frozen=True)
class History:
    """Decode batches in order; a batch without rows is an idle one."""

    num_steps: int
    num_draft_tokens: int
    decode_log_interval: int
    num_requests: int
    batches: tuple[tuple[Row, ...], ...]

    @property
    def num_drafts_per_round(self) -> int:
        """Return how many drafts a verify proposes."""
        drafts: int = count_draft_nodes(self.num_draft_tokens)
        return drafts


@dataclass(frozen=True)
class RequestLog:
    """The verifies of one request, and how many tokens its user got."""

    num_accepted_drafts: tuple[int, ...]
    num_completion_tokens: int
    num_drafts_per_round: int


@composite
def histories(draw: DrawFn) -> History:
    """Draw a run: requests join, verify, end, and are in flight once more after their end."""
    num_steps = draw(st.integers(0, 5))
    num_batches = draw(st.integers(0, 7))
    num_requests = draw(mostly(st.integers(1, 4), st.just(0), one_in=8))
    moments = st.integers(0, num_batches)
    spans = [sorted(draw(st.tuples(moments, moments))) for _ in range(num_requests)]
    idle = draw(st.sets(st.integers(0, num_batches), max_size=2))
    accepts = st.sampled_from((0, num_steps, *range(num_steps + 1)))
    return History(
        num_steps=num_steps,
        num_draft_tokens=path_width(num_steps) + (draw(st.integers(0, 6)) if num_steps else 0),
        decode_log_interval=draw(st.integers(1, 3)),
        num_requests=num_requests,
        batches=tuple(
            tuple(
                Row(request, draw(accepts), is_zombie=number == last)
                for request, (first, last) in enumerate(spans)
                if first <= number <= last and first < last and number not in idle
            )
            for number in range(num_batches)
        ),
    )


@composite
def counted_intervals(draw: DrawFn) -> tuple[tuple[int, ...], int, int]:
    """Draw accepted drafts a verify, the levels of a draft, and the drafts that a verify proposes."""
    num_steps = draw(mostly(st.integers(1, 6), st.just(0), one_in=6))
    some, extremes = st.integers(0, num_steps), st.sampled_from((0, num_steps))
    drafts = draw(st.one_of(st.lists(some, max_size=8), st.lists(extremes, min_size=1, max_size=8)))
    return tuple(drafts), num_steps, num_steps + (draw(st.sampled_from((0, 0, 1, 7))) if num_steps else 0)


@composite
def request_logs(draw: DrawFn) -> RequestLog:
    """Draw the verifies of a request, a third of which propose nothing; a stop may lie inside the last run."""
    per_round = draw(st.sampled_from((1, 3, 5, 0, 15, 0)))
    drafts = draw(st.lists(st.integers(0, min(per_round, 5)), max_size=6))
    most = 1 + sum(drafts) + len(drafts)
    least = 1 + sum(drafts[:-1]) + len(drafts)
    return RequestLog(tuple(drafts), draw(st.integers(least, most)), per_round)


@composite
def wide_batches(draw: DrawFn) -> tuple[tuple[Verify, ...], ...]:
    """Draw batches of verifies as (drafts, levels, accepted): of any width, 0 and all accepted often.

    Most batches are wider than those before.
    """

    def verify(widest: int) -> Verify:
        levels = draw(mostly(st.integers(0, widest), st.sampled_from((0, widest)), one_in=3))
        drafts = levels + (draw(st.sampled_from((0, 0, 1, 4))) if levels else 0)
        return drafts, levels, draw(st.sampled_from((0, levels, *range(levels + 1))))

    widths = draw(st.lists(st.integers(0, 5), max_size=4))
    if draw(st.integers(0, 3)):
        widths = sorted(widths)
    counts = st.integers(0, 4)
    return tuple(tuple(verify(widest) for _ in range(draw(counts))) for widest in widths)


def several_logs() -> SearchStrategy[list[RequestLog]]:
    """Return a strategy of the logs of a few requests."""
    return st.lists(request_logs(), min_size=2, max_size=4)


def draft_sizes() -> SearchStrategy[tuple[int | None, int | None]]:
    """Return nodes and levels of a draft, either of which may be unset."""
    nodes, steps = st.one_of(st.none(), st.integers(1, 64)), st.one_of(st.none(), st.integers(0, 8))
    return st.tuples(nodes, steps)
