"""Laws of the request-to-token map: what is written is read back, and nothing else changes."""

import numpy as np

from specsim.conformance.backend import Backend
from specsim.properties.laws.checks import Array, Case, joined, outputs_of, require_equal, states


def written_slots_are_read_back(backend: Backend, case: Case) -> None:
    """Reading the ranges that were written gives the slots again."""
    written = outputs_of(backend, "assign_req_to_token_pool", case)["req_to_token"]
    asked = {name: case[name] for name in ("req_pool_indices", "start_offsets", "end_offsets")}
    asked.update(req_to_token=written, num_locations=len(case["out_cache_loc"]))
    read = outputs_of(backend, "assign_extend_cache_locs", asked)["out_cache_loc"]
    require_equal("the slots read back", read, case["out_cache_loc"])


def ranges_hold_their_slots(backend: Backend, case: Case) -> None:
    """The positions of the ranges, request after request, hold the flat slots in order."""
    written = outputs_of(backend, "assign_req_to_token_pool", case)["req_to_token"]
    held = [written[row, start:end] for row, start, end in _ranges(case)]
    require_equal("the slots in the ranges", joined(held), case["out_cache_loc"])


def only_the_ranges_are_written(backend: Backend, case: Case) -> None:
    """Positions outside the ranges, and rows of others, keep their slots."""
    written = outputs_of(backend, "assign_req_to_token_pool", case)["req_to_token"]
    inside = np.zeros(written.shape, dtype=np.bool_)
    for row, start, end in _ranges(case):
        inside[row, start:end] = True
    require_equal("the map outside the ranges", written[~inside], case["req_to_token"][~inside])


def reading_concatenates_the_ranges(backend: Backend, case: Case) -> None:
    """The flat slots are the ranges of the rows, one after the other."""
    read = outputs_of(backend, "assign_extend_cache_locs", case)["out_cache_loc"]
    ranges = [case["req_to_token"][row, start:end] for row, start, end in _ranges(case)]
    require_equal("out_cache_loc", read, joined(ranges))


def accepted_positions_follow_their_slots(backend: Backend, case: Case) -> None:
    """The next positions of a request lead to the slots of its path, in path order; no other entry changes."""
    written = outputs_of(backend, _REMAP, case)["req_to_token"]
    expected = case["req_to_token"].copy()
    for row, start, path in _paths(case):
        expected[row, start : start + len(path)] = case["out_cache_loc"][path]
    require_equal("req_to_token", written, expected)


def window_is_kept_or_freed(backend: Backend, case: Case) -> None:
    """Every slot of the verify window is either mapped to a position or marked for freeing, and none is both."""
    outputs = outputs_of(backend, _REMAP, case)
    freed = case["out_cache_loc"][outputs["evict_mask"]]
    kept = [outputs["req_to_token"][row, start : start + len(path)] for row, start, path in _paths(case)]
    require_equal("the slots kept and freed", np.sort(joined([freed, *kept])), np.sort(case["out_cache_loc"]))


def _paths(case: Case) -> list[tuple[int, int, Array]]:
    """Return (row, committed length, accepted nodes) of each request."""
    columns = (case["req_pool_indices"], case["seq_lens"], case["accept_index"])
    return [(int(row), int(start), path[path >= 0]) for row, start, path in zip(*columns, strict=True)]


def _ranges(case: Case) -> list[tuple[int, int, int]]:
    """Return (row, start, end) of each request."""
    columns = (case["req_pool_indices"], case["start_offsets"], case["end_offsets"])
    return [(int(row), int(start), int(end)) for row, start, end in zip(*columns, strict=True)]


_REMAP = "remap_accepted_slots"

PROPERTIES = states(
    "slots",
    (written_slots_are_read_back, ("assign_req_to_token_pool", "assign_extend_cache_locs")),
    (ranges_hold_their_slots, "assign_req_to_token_pool", "P40"),
    (only_the_ranges_are_written, "assign_req_to_token_pool", "P31"),
    (reading_concatenates_the_ranges, "assign_extend_cache_locs", "P40"),
    (accepted_positions_follow_their_slots, _REMAP, "P40"),
    (window_is_kept_or_freed, _REMAP, "P38"),
)
