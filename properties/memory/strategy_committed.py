"""What leaves an engine: lengths of single requests, and pages that leave, go back, are given back and arrive."""

from dataclasses import dataclass

from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.memory.strategy import Event, histories
from specsim.properties.strategies.arrays import bulk

PAGE_SIZES = (4, 4, 1, 16)
"""Half of the cases have pages of 4, a quarter each of 1 and of 16."""

PAGE_EVENTS = (
    *("grow", "end", "share", "free", "back", "grow", "end", "grow"),
    *("free", "other", "share", "end", "refused", "free", "grow"),
)
"""A text grows, goes back by some positions, goes on in other pages or shares those of another one; a page is given
back; a transfer ends."""


@dataclass(frozen=True)
class PageCase:
    """Lengths of one request, and how many tokens are left of it; some break a rule."""

    num_written: int
    num_tokens: int
    num_protected: int
    page_size: int
    num_final: int | None


@dataclass(frozen=True)
class PageHistory:
    """A page size, and what happens to the pages of some requests."""

    page_size: int
    events: tuple[Event, ...]


@dataclass(frozen=True)
class LoadCase:
    """What came of a text and what a request has, as ``loadable_positions`` takes it; some break a rule."""

    num_tokens: int
    num_target: int
    num_draft: int | None
    num_states: int | None
    window: int
    window_start: int
    page_size: int


def load_cases() -> st.SearchStrategy[list[LoadCase]]:
    """Draw texts that came whole or in part; a third each has a draft without KV, states and a window."""
    return st.lists(_load_cases(), min_size=8, max_size=24)


@composite
def _load_cases(draw: st.DrawFn) -> LoadCase:
    source = draw(bulk())
    num_target = source.integer(0, 12)
    num_tokens = num_target + source.integer(0, 2)
    num_draft = None if source.integer(0, 2) == 2 else max(0, num_target - source.integer(0, 2))
    num_states = None
    if source.integer(0, 2) == 2:
        num_states = min(num_target, max(0, num_tokens - source.integer(0, 3))) if source.integer(0, 4) else 0
    window = source.integer(1, 6) if source.integer(0, 1) else 0
    start = max(0, num_target - window + source.integer(-3, 3)) if window else 0
    return LoadCase(num_tokens, num_target, num_draft, num_states, window, start, (1, 1, 4, 2)[source.integer(0, 3)])


def page_cases() -> st.SearchStrategy[list[PageCase]]:
    """Draw lengths; each end lies at any place of a page, a third of the requests was cut, one in six breaks a rule."""
    return st.lists(_page_cases(), min_size=4, max_size=16)


@composite
def _page_cases(draw: st.DrawFn) -> PageCase:
    size = draw(st.sampled_from(PAGE_SIZES))
    num_pages, place = draw(st.integers(0, 3)), draw(st.integers(0, size - 1))
    written = num_pages * size + place
    unfed = draw(st.sampled_from((1, 1, 1, 2, 1, 0)))
    cut = draw(st.sampled_from((None, None, 0, 1, 3, size)))
    tokens = written + unfed
    final = None if cut is None else max(tokens - cut, 0)
    left = written if final is None else min(written, final)
    return PageCase(written, tokens, draw(st.integers(0, max(left // size, 0))) * size, size, final)


def export_histories() -> st.SearchStrategy[list[PageHistory]]:
    """Draw histories of pages that leave."""
    drawn = st.builds(PageHistory, page_size=st.sampled_from((4, 1, 2)), events=histories(PAGE_EVENTS, 12))
    return st.lists(drawn, min_size=2, max_size=8)
