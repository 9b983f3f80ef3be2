"""Strategies of what pools move."""

import numpy as np
from hypothesis import strategies as st

from specsim.config import INDEXER_PAGE_KEYS
from specsim.properties.composite import composite
from specsim.properties.operations.compact.strategy import OVERLAP_KINDS, pairs
from specsim.properties.strategies.arrays import (
    LENGTH_DTYPES,
    MAX_REQUESTS,
    Arguments,
    Array,
    Bulk,
    bulk,
    mostly,
    one_of_evenly,
)
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import with_entry
from specsim.properties.strategies.malformed.structure import slot_written_twice

HEAD_DIMS = (128, 32, 64)


@composite
def move_indexer_cache(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw moves inside of a page and between pages, which overlap in every way; some layers have no indexer."""
    num_pages, head_dim, source = draw(st.sampled_from((2, 3, 3, 1))), draw(st.sampled_from(HEAD_DIMS)), draw(bulk())
    row = INDEXER_PAGE_KEYS * (head_dim + 4 * head_dim // 128)
    lengths = draw(mostly(_layers(num_pages), st.just(()), one_in=12))
    count = draw(_counts(8)) if max_requests else 0
    kind = draw(one_of_evenly(st.just("window"), st.sampled_from(OVERLAP_KINDS)))
    if kind == "window":
        targets, sources = window_pairs(source, count, num_pages * INDEXER_PAGE_KEYS)
    else:
        targets, sources = pairs(kind, count, num_pages * INDEXER_PAGE_KEYS, source)
    tail = np.zeros(draw(st.sampled_from((0, 0, 1, 3))) if max_requests else 0, dtype=np.int64)
    buffers = [source.integers((pages, row), 0, 255, np.uint8) for pages in lengths]
    targets, sources = (np.concatenate([slots, tail]) for slots in (targets, sources))
    return {"indexer_buffers": buffers, "target_slots": targets, "source_slots": sources, "head_dim": head_dim}


@made_once
def _layers(num_pages: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Return a strategy of the pages of each layer: all have as many, or none."""
    return st.sampled_from(((num_pages,), (num_pages, num_pages), (num_pages, 0), (0, num_pages, num_pages), (0,)))


@made_once
def _counts(most: int) -> st.SearchStrategy[int]:
    """Return a strategy of numbers of pairs, one in four none."""
    return mostly(st.integers(min(1, most), most), st.just(0), one_in=4)


def window_pairs(source: Bulk, count: int, num_slots: int) -> tuple[Array, Array]:
    """Return the pairs of an accepted path whose window lies across the end of a page, or at an end of the pool."""
    width = min(2 * count, num_slots - 1)
    last = num_slots - width
    first = min(max(INDEXER_PAGE_KEYS - source.integer(0, width), 1), last)
    ranks = np.sort(source.order(width)[: min(count, width)])
    ranks[:1] = 0
    return first + np.arange(len(ranks), dtype=np.int64), (first + ranks).astype(np.int64)


@composite
def translate_move_slots(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw pairs inside and outside of the window, in a window's pool whose slots have another order."""
    num_slots, source = draw(st.integers(3, 24)), draw(bulk())
    most = num_slots - 1 if max_requests else 0
    targets, sources = pairs(draw(st.sampled_from(OVERLAP_KINDS)), draw(_counts(most)), num_slots, source)
    full_to_swa = np.zeros(num_slots, dtype=draw(st.sampled_from(LENGTH_DTYPES)))
    full_to_swa[1:] = source.order(num_slots - 1) + 1
    full_to_swa[_linked(targets, sources, source, num_slots)] = 0
    tail = np.zeros(draw(st.sampled_from((0, 0, 1, 3))) if max_requests else 0, dtype=np.int64)
    target_slots = np.concatenate([targets, tail])
    return {"target_slots": target_slots, "source_slots": np.concatenate([sources, tail]), "full_to_swa": full_to_swa}


def _linked(targets: Array, sources: Array, source: Bulk, num_slots: int) -> Array:
    """Return slots that have left the window: with a slot goes every one that a pair links it to."""
    leader = np.arange(num_slots)
    for _ in range(len(targets)):
        for one, other in zip(targets, sources, strict=True):
            leader[[one, other]] = min(leader[one], leader[other])
    has_left = source.integers(num_slots, 0, 2) == 2
    has_left[0] = True
    return np.flatnonzero(has_left[leader])


def side_left_out(arguments: Arguments, where: int) -> Arguments:
    """One slot has left the window, whatever it is paired with."""
    return with_entry(arguments, "full_to_swa", where, 0)


def dump_in_use(arguments: Arguments, where: int) -> Arguments:
    """The dump goes with a slot of the window."""
    return with_entry(arguments, "full_to_swa", 0, where % 7 + 1)


def counterpart_shared(arguments: Arguments, where: int) -> Arguments:
    """Two slots go with one slot of the window."""
    return with_entry(arguments, "full_to_swa", where, arguments["full_to_swa"].max(initial=0))


FAULTS = {
    "move_indexer_cache": (slot_written_twice,),
    "translate_move_slots": (side_left_out, dump_in_use, counterpart_shared),
}
