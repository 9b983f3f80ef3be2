"""Strategies of the operations that find the draft model's slots."""

import numpy as np
from hypothesis import strategies as st

from specsim.counts import draft_end, page_size_of_beams
from specsim.properties.composite import composite
from specsim.properties.operations.pages.strategy import near_a_page, paged_sizes
from specsim.properties.strategies.arrays import LENGTH_DTYPES, MAX_REQUESTS, Arguments, bulk, mostly, one_of_evenly
from specsim.properties.strategies.limits import nearest, sized
from specsim.properties.strategies.made_once import made_once
from specsim.properties.strategies.malformed.arguments import Fault
from specsim.properties.strategies.malformed.structure import one_less, one_more
from specsim.properties.strategies.topologies import batch, lengths, mapped, request_rows, slack


@composite
def assign_draft_cache_locs(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows, and room for the copies that beams on pages of their own need, or more of it."""
    arguments: Arguments = draw(_drafts(max_requests))
    room = num_copies_of(arguments) + draw(st.sampled_from((0, 1, 5)))
    return {**arguments, "num_copies": room_for_copies(arguments, room)}


def num_copies_of(drafts: Arguments) -> int:
    """Return how many copies beams on pages of their own need."""
    last = drafts["seq_lens"].astype(np.int64) % page_size_of_beams(drafts["topk"], drafts["page_size"])
    return int(last.sum() * (drafts["topk"] - 1))


def room_for_copies(drafts: Arguments, room: int) -> int:
    """Return the number of copies that is taken and next to a room for them, but no less than beams need."""
    return max(num_copies_of(drafts), nearest("num_copies", room))


@made_once
@composite
def _drafts(draw: st.DrawFn, max_requests: int) -> Arguments:
    """Draw request rows, the longest of which may be filled to its end; most trees lie on pages."""
    topk, num_steps = draw(sized("topk", st.integers(1, 5))), draw(sized("num_steps", st.integers(1, 6)))
    page_size = draw(sized("page_size", mostly(paged_sizes(), st.just(1), one_in=4)))
    on_pages = one_of_evenly(
        st.integers(0, 3).map(lambda pages: pages * page_size), near_a_page(page_size, page_size), lengths()
    )
    committed = draw(batch(on_pages if page_size > 1 else lengths(), max_requests))
    source = draw(bulk())
    ends = [int(draft_end(length, topk, num_steps, page_size)) for length in committed]
    width = max(ends, default=topk * num_steps) + draw(slack())
    rows = request_rows(source, len(committed), width, page_size)
    for place in draw(st.lists(st.integers(0, 5), max_size=1)):
        rows[0][place : place + 1] = 0
    known = mapped(rows, committed, draw(st.sampled_from(LENGTH_DTYPES)))
    return {**known, "topk": topk, "num_steps": num_steps, "page_size": page_size}


@composite
def per_step_draft_out_cache_loc(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw one slot a request, beam and step."""
    topk, num_steps = draw(sized("topk", st.integers(1, 5))), draw(sized("num_steps", st.integers(1, 6)))
    count = len(draw(batch(st.just(None), max_requests))) * topk * num_steps
    return {"out_cache_loc": draw(bulk()).order(count).astype(np.int64) + 1, "topk": topk, "num_steps": num_steps}


@composite
def generate_draft_decode_kv_indices(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows and the committed lengths, one copy a beam."""
    arguments: Arguments = draw(_drafts(max_requests))
    return {**arguments, "positions": np.repeat(arguments["seq_lens"], arguments["topk"]).astype(np.int64)}


@composite
def draft_decode_cascade_metadata(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw request rows in whole pages; the page table may cover more than the longest prefix."""
    arguments: Arguments = draw(_drafts(max_requests))
    longest = int(arguments["seq_lens"].max(initial=0))
    return {**arguments, "max_prefix_len": min(longest + draw(slack()), arguments["req_to_token"].shape[1])}


def _pages_past_the_row(arguments: Arguments, where: int) -> Arguments:
    """The row ends before the last page of the last beam, though not before its last entry."""
    del where
    return {**arguments, "req_to_token": arguments["req_to_token"][:, :-1].copy()}


FAULTS: dict[str, tuple[Fault, ...]] = {
    "assign_draft_cache_locs": (_pages_past_the_row, one_less("num_copies")),
    "generate_draft_decode_kv_indices": (_pages_past_the_row, one_more("positions"), one_less("seq_lens")),
    "draft_decode_cascade_metadata": (_pages_past_the_row, one_less("max_prefix_len")),
}
