"""Structural rules of slot operations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specsim.rejection import Reason
from specsim.validation.common import PATHS, first_place, lengths_add_up, rows_are_distinct
from specsim.validation.rule import Arguments, Fault, rule


def _lengths(arguments: Arguments) -> NDArray[Any]:
    return np.asarray(np.asarray(arguments["end_offsets"], dtype=np.int64) - arguments["start_offsets"])


@rule(Reason.INCONSISTENT_LENGTHS, "a range does not end before it starts")
def _ranges_ascend(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No entry of `end_offsets` is below that of `start_offsets`."""
    del axes
    starts, ends = arguments["start_offsets"], arguments["end_offsets"]
    place = first_place(ends < starts)
    return None if place is None else Fault(f"end_offsets{list(place)}", int(ends[place]), f"at least {starts[place]}")


@rule(Reason.ROW_TOO_SHORT, "the accepted positions lie in the row")
def _positions_lie_in_the_row(arguments: Arguments, axes: Arguments) -> Fault | None:
    """`seq_lens` and the nodes of `accept_index` together do not exceed a row of `req_to_token`."""
    lengths, counts = arguments["seq_lens"], (arguments["accept_index"] >= 0).sum(axis=1)
    for request in np.flatnonzero(lengths + counts > axes["position"])[:1]:
        most = axes["position"] - int(counts[request])
        return Fault(f"seq_lens[{request}]", int(lengths[request]), f"at most {most}")
    return None


RULES = {
    "assign_req_to_token_pool": (
        _ranges_ascend,
        lengths_add_up(
            "The ranges add up to the length of `out_cache_loc`.", _lengths, "location", "out_cache_loc.shape[0]"
        ),
        rows_are_distinct(lambda arguments: _lengths(arguments) > 0, "requests with a range"),
    ),
    "assign_extend_cache_locs": (
        _ranges_ascend,
        lengths_add_up("The ranges add up to `num_locations`.", _lengths, "location", "num_locations"),
    ),
    "remap_accepted_slots": (*PATHS, rows_are_distinct(lambda arguments: slice(None)), _positions_lie_in_the_row),
}
