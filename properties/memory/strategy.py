"""Histories of host memory: what happens to allocators, to a prefix cache, and to requests between them."""

from dataclasses import dataclass, replace
from itertools import permutations

from hypothesis import strategies as st

from specsim.simulation.memory.reserve import DecodeSizes

MOST_REQUESTS = 3
MOST_PROMPT = 9
_COUNTS = 7
BATCHES = tuple(batch for size in range(1, MOST_REQUESTS + 1) for batch in permutations(range(MOST_REQUESTS), size))

ALLOCATOR_EVENTS = (
    *("extend", "free", "begin", "trim", "extend", "borrow", "free", "end"),
    *("extend", "refused", "free", "allocate", "borrow", "begin"),
)
SWA_EVENTS = (
    *("extend", "evict", "free", "begin", "extend", "borrow", "hand", "end"),
    *("extend", "refused", "evict", "hand", "extend", "free"),
)
CACHE_EVENTS = ("insert", "insert", "match", "lock", "insert", "evict", "insert", "match", "lock", "unlock", "refused")


@dataclass(frozen=True)
class Event:
    """One thing that happens; what the numbers choose from depends on what there is then.

    Parameters
    ----------
    what : str
        The kind of event.
    requests : tuple of int
        Requests that take part, in batch order.
    counts : tuple of int
        As many numbers as there are requests at most; some kinds of event read them in another way.
    """

    what: str
    requests: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class AllocatorHistory:
    """A pool and what happens to it; with SWA pages a second one."""

    page_size: int
    num_pages: int
    shuffle_seed: int | None
    events: tuple[Event, ...]
    num_swa_pages: int = 0

    @property
    def num_slots(self) -> int:
        """Slots of the pool, page 0 included, and a rest that fills no page."""
        return (self.num_pages + 1) * self.page_size + self.page_size // 2


def slot_histories() -> st.SearchStrategy[AllocatorHistory]:
    """Draw histories of a pool of page size 1."""
    return _allocator_histories(st.just(1), st.integers(1, 12))


def page_histories() -> st.SearchStrategy[AllocatorHistory]:
    """Draw histories of a pool of larger pages."""
    return _allocator_histories(st.integers(2, 4), st.integers(1, 7))


def _allocator_histories(
    page_sizes: st.SearchStrategy[int], nums_of_pages: st.SearchStrategy[int]
) -> st.SearchStrategy[AllocatorHistory]:
    seeds, events = st.none() | st.integers(0, 9), histories(ALLOCATOR_EVENTS, 12)
    return st.builds(AllocatorHistory, page_sizes, nums_of_pages, seeds, events)


def histories(kinds: tuple[str, ...], most: int) -> st.SearchStrategy[tuple[Event, ...]]:
    """Draw events of some kinds; one that is named twice is twice as frequent.

    An event is drawn as one number, which is five times as fast as drawing what it is made of. Lists of lists are
    longer than lists, and shrink as far.
    """
    codes = st.integers(0, len(kinds) * len(BATCHES) * _COUNTS**MOST_REQUESTS - 1)
    scenes = st.lists(codes.map(lambda code: _decoded(kinds, code)), min_size=1, max_size=most)
    return st.lists(scenes, min_size=1, max_size=5).map(lambda lists: tuple(event for one in lists for event in one))


def _decoded(kinds: tuple[str, ...], code: int) -> Event:
    rest, kind = divmod(code, len(kinds))
    rest, batch = divmod(rest, len(BATCHES))
    counts = tuple(rest // _COUNTS**place % _COUNTS for place in range(MOST_REQUESTS))
    return Event(kinds[kind], BATCHES[batch], counts)


def swa_histories() -> st.SearchStrategy[list[AllocatorHistory]]:
    """Draw histories of two pools, the second one perhaps smaller."""
    pools = st.tuples(st.sampled_from([1, 2, 3]), st.integers(1, 9), st.sampled_from([0, 0, 1, 3]))
    drawn = st.tuples(pools, histories(SWA_EVENTS, 12))
    return st.lists(
        drawn.map(lambda one: AllocatorHistory(one[0][0], one[0][1], None, one[1], max(1, one[0][1] - one[0][2]))),
        min_size=2,
        max_size=9,
    )


@dataclass(frozen=True)
class CacheHistory:
    """A prefix cache, the texts that it may come to hold, and what happens to it."""

    page_size: int
    has_pair_keys: bool
    texts: tuple[tuple[int, ...], ...]
    events: tuple[Event, ...]


def cache_histories() -> st.SearchStrategy[list[CacheHistory]]:
    """Draw histories of prefix caches."""
    return st.lists(cache_history(), min_size=3, max_size=19)


def cache_history() -> st.SearchStrategy[CacheHistory]:
    """Draw one of them."""
    return st.builds(CacheHistory, st.integers(1, 3), st.booleans(), texts(10), histories(CACHE_EVENTS, 12))


def texts(most: int) -> st.SearchStrategy[tuple[tuple[int, ...], ...]]:
    """Draw texts of which many begin alike: each is cut off from an earlier one and goes on in its own way."""
    parts = st.tuples(st.integers(0, 9), st.integers(0, most), st.integers(0, 2 * 3**most - 1))
    return st.lists(parts, min_size=2, max_size=9).map(lambda drawn: _joined(drawn, most))


def _joined(parts: list[tuple[int, int, int]], most: int) -> tuple[tuple[int, ...], ...]:
    """Return the texts; the last number of a part has the length and the tokens of its tail as its digits."""
    found: list[tuple[int, ...]] = []
    for earlier, cut, tail in parts:
        front = found[earlier % len(found)][:cut] if found else ()
        rest, length = divmod(tail, most + 1)
        found.append((*front, *(rest // 3**place % 3 for place in range(length)))[:most])
    return tuple(found)


@dataclass(frozen=True)
class RowHistory:
    """Rows of a map; each event takes so many, or with a negative number gives one back."""

    num_rows: int
    events: tuple[int, ...]


def row_histories() -> st.SearchStrategy[RowHistory]:
    """Draw histories of the rows of a map."""
    events = st.lists(st.integers(-3, 3), min_size=1, max_size=10).map(tuple)
    return st.builds(RowHistory, st.integers(2, 6), events)


MEMORY_EVENTS = (
    *("join", "step", "admit", "join", "step", "chunk", "join", "step", "step", "finish"),
    *("retract", "join", "abort", "step", "evict", "late", "resize", "chunk"),
)
MEMORY_SCENES = (
    *(("join",), ("admit", "chunk"), ("step",), ("step", "step"), ("join",), ("step",)),
    *(("finish",), ("abort",), ("retract",), ("evict",), ("late",), ("resize",)),
)
"""What happens by one rule of a machine; who joins and decodes is drawn more often than who leaves."""


@dataclass(frozen=True)
class MemoryHistory:
    """An engine's memory, the prompts that may come, and what happens.

    Parameters
    ----------
    num_fitting, slack : int
        The pool has room for so many requests, and for some positions more or fewer.
    sizes : DecodeSizes
        What an iteration may touch at most; it may shrink and grow again.
    is_overlapped : bool
        Whether a result arrives after the next iteration was launched.
    window : int
        Positions that a layer with slots of its own sees; 0 where there is no such layer.
    swa_share : int
        Such slots, in eighths of the others; with a prefix cache there are as many, as only the cache knows which of
        those that it could forget have some.
    """

    page_size: int
    num_fitting: int
    slack: int
    num_rows: int
    row_width: int
    has_cache: bool
    has_pair_keys: bool
    is_overlapped: bool
    sizes: DecodeSizes
    prompts: tuple[tuple[int, ...], ...]
    events: tuple[Event, ...]
    window: int = 0
    swa_share: int = 8

    @property
    def num_swa_pages(self) -> int:
        """Pages of the SWA pool, page 0 left out."""
        return self.num_pages if self.has_cache else max(1, self.num_pages * self.swa_share // 8)

    @property
    def num_pages(self) -> int:
        """Pages of the pool, page 0 left out."""
        sizes = self.sizes
        beam = -(-(self.page_size - 1 + sizes.num_steps) // self.page_size) * self.page_size
        ahead = max(sizes.topk * beam, sizes.num_draft_tokens) * (2 if sizes.allocates_ahead else 1)
        return max(2, -(-(self.num_fitting * (MOST_PROMPT + ahead) + self.slack) // self.page_size))


def memory_histories() -> st.SearchStrategy[list[MemoryHistory]]:
    """Draw histories of whole memories, of V1 and of V2, some of them tight."""
    return st.lists(one_memory(), min_size=1, max_size=9)


def one_memory() -> st.SearchStrategy[MemoryHistory]:
    """Draw one of them."""
    return st.builds(
        MemoryHistory,
        page_size=st.sampled_from([1, 2, 3, 4]),
        num_fitting=st.integers(1, 3),
        slack=st.integers(-4, 12),
        num_rows=st.integers(3, 5),
        row_width=st.sampled_from([80, 80, 80, 30]),
        has_cache=st.sampled_from([True, True, True, False]),
        has_pair_keys=st.booleans(),
        is_overlapped=st.sampled_from([True, True, False]),
        sizes=decode_sizes(),
        prompts=texts(MOST_PROMPT).map(lambda found: tuple(text or (0,) for text in found)),
        events=histories(MEMORY_EVENTS, 14),
    )


def window_histories() -> st.SearchStrategy[list[MemoryHistory]]:
    """Draw histories of memories in which a layer sees a window, and has slots of its own."""
    windows = st.tuples(st.sampled_from([2, 3, 1, 4, 5, 8]), st.sampled_from([8, 8, 7, 5, 4]))
    drawn = st.tuples(one_memory(), windows).map(lambda one: replace(one[0], window=one[1][0], swa_share=one[1][1]))
    return st.lists(drawn | _followed(), min_size=1, max_size=9)


def _followed() -> st.SearchStrategy[MemoryHistory]:
    """Draw requests that each go on from what the one before them left to the cache, or from somewhere inside of it."""
    codes = st.lists(st.integers(0, _COUNTS**2 - 1), min_size=8, max_size=24)
    drawn = st.tuples(one_memory(), codes, st.sampled_from([2, 3, 1, 4]), st.integers(2, 6))
    return drawn.map(
        lambda one: replace(
            one[0],
            num_fitting=3,
            row_width=80,
            has_cache=True,
            window=one[2],
            events=tuple(_after_another(place, code, one[3]) for place, code in enumerate(one[1])),
        )
    )


def _after_another(place: int, code: int, num_steps: int) -> Event:
    """Return what happens in turn: somebody joins, perhaps in chunks, decodes for some steps and finishes."""
    kind = ("join" if code % 3 else "admit", "chunk", *["step"] * num_steps, "finish")[place % (num_steps + 3)]
    return Event(kind, (0,), (code % _COUNTS, code // _COUNTS, code % 4))


def window_cases() -> st.SearchStrategy[tuple[int, int, int]]:
    """Draw a position, a window and a page size."""
    return st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(1, 4))


def page_sizes() -> st.SearchStrategy[int]:
    """Draw a page size that prompts of a few tokens fill."""
    return st.integers(1, 3)


def decode_sizes() -> st.SearchStrategy[DecodeSizes]:
    """Draw beams, levels and nodes of small trees and chains."""
    drawn = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.booleans())
    return drawn.map(
        lambda one: DecodeSizes(one[0], one[1], one[1] + 1 + (one[2] if one[0] > 1 else 0), allocates_ahead=one[3])
    )
