"""Lengths of requests: what they reserve, need and give back."""

from dataclasses import dataclass

from hypothesis import strategies as st

from specsim.properties.composite import composite
from specsim.properties.memory.strategy import decode_sizes
from specsim.simulation.memory.books import Books
from specsim.simulation.memory.reserve import DecodeSizes

NO_SPECULATION = DecodeSizes()


@dataclass(frozen=True)
class LengthCase:
    """A batch of requests, in lengths alone.

    Parameters
    ----------
    longest : int
        Tokens of the longest text, prompt and output.
    batch : tuple of Books
        None is longer than that.
    num_prompt, finished_length : int and int or None
        Prompt of the first request, and its output up to the end; None where nothing cuts it.
    """

    page_size: int
    sizes: DecodeSizes
    has_pair_keys: bool
    longest: int
    batch: tuple[Books, ...]
    num_prompt: int
    finished_length: int | None


KeyCase = tuple[list[int], bool, int]
"""A text, whether its keys are pairs, and how many tokens after a position these have."""


def key_cases() -> st.SearchStrategy[list[KeyCase]]:
    """Draw some texts, empty and short ones among them, and how they are keyed."""
    text = st.lists(st.integers(0, 9), max_size=8)
    return st.lists(st.tuples(text, st.booleans(), st.integers(1, 3)), min_size=1, max_size=12)


def length_cases() -> st.SearchStrategy[list[LengthCase]]:
    """Draw some batches."""
    return st.lists(_length_cases(), min_size=1, max_size=12)


@composite
def _length_cases(draw: st.DrawFn) -> LengthCase:
    page_size = draw(st.sampled_from([1, 2, 3, 4, 16]))
    longest = draw(st.integers(1, 40))
    lengths = draw(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, longest), st.integers(0, 30)), min_size=1, max_size=4)
    )
    return LengthCase(
        page_size=page_size,
        sizes=draw(st.one_of(decode_sizes(), decode_sizes(), st.just(NO_SPECULATION))),
        has_pair_keys=draw(st.booleans()),
        longest=longest,
        batch=tuple(_books(page_size, *one) for one in lengths),
        num_prompt=draw(st.integers(1, longest)),
        finished_length=draw(st.none() | st.integers(1, longest)),
    )


def _books(page_size: int, num_cached_pages: int, num_committed: int, ahead: int) -> Books:
    num_protected = min(num_cached_pages, num_committed // page_size) * page_size
    return Books(1, num_protected, num_committed, num_committed + ahead)
