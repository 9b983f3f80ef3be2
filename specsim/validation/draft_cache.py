"""Structural rules of the draft's slots and of its attention metadata."""

import numpy as np

from specsim.counts import draft_end, page_size_of_beams
from specsim.rejection import Reason
from specsim.validation.common import bounds_the_sum, first_place
from specsim.validation.rule import Arguments, Fault, rule


@rule(Reason.ROW_TOO_SHORT, "a beam of a paged tree has pages of its own")
def _rows_hold_the_pages_of_every_beam(arguments: Arguments, axes: Arguments) -> Fault | None:
    """The pages of the last beam lie in the row of `req_to_token`."""
    lengths = arguments["seq_lens"].astype(np.int64)
    ends = draft_end(lengths, axes["topk"], axes["step"], axes["page_size"])
    place = first_place(ends > axes["position"])
    if place is None:
        return None
    needed = f"a length whose draft ends at {axes['position']}, not {ends[place]}"
    return Fault(f"seq_lens{list(place)}", int(lengths[place]), needed)


def _num_copies(arguments: Arguments, axes: Arguments) -> int:
    last = arguments["seq_lens"].astype(np.int64) % page_size_of_beams(axes["topk"], axes["page_size"])
    return int(last.sum() * (axes["topk"] - 1))


def _longest(arguments: Arguments, axes: Arguments) -> int:
    del axes
    return int(arguments["seq_lens"].max(initial=0))


@rule(Reason.INCONSISTENT_LENGTHS, "offsets and contents must use the same committed length")
def _positions_are_the_lengths(arguments: Arguments, axes: Arguments) -> Fault | None:
    """`positions` are `seq_lens`, one copy a beam, before any step advanced them."""
    expected = np.repeat(arguments["seq_lens"], axes["topk"])
    for place in np.flatnonzero(arguments["positions"] != expected)[:1]:
        return Fault(f"positions[{place}]", arguments["positions"][place], str(expected[place]))
    return None


RULES = {
    "assign_draft_cache_locs": (
        _rows_hold_the_pages_of_every_beam,
        bounds_the_sum(
            "num_copies",
            "num_copies",
            _num_copies,
            "`num_copies` is at least what the beams after the first lack of their first pages.",
            "paged attention reads whole pages",
        ),
    ),
    "generate_draft_decode_kv_indices": (_rows_hold_the_pages_of_every_beam, _positions_are_the_lengths),
    "draft_decode_cascade_metadata": (
        _rows_hold_the_pages_of_every_beam,
        bounds_the_sum(
            "max_prefix_len",
            "max_prefix_len",
            _longest,
            "`max_prefix_len` is at least the longest of `seq_lens`.",
            "the page table reaches the last whole page of every prefix",
        ),
    ),
}
