"""Faults in writing and reading the request-to-token map."""

from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead

Array = Any


def _ends_included(
    req_pool_indices: Array, req_to_token: Array, start_offsets: Array, end_offsets: Array, out_cache_loc: Array
) -> None:
    used = 0
    for row, start, end in zip(req_pool_indices, start_offsets, end_offsets, strict=True):
        room = req_to_token[row, start : end + 1]
        slots = out_cache_loc[used : used + len(room)]
        room[: len(slots)] = slots
        used += int(end - start)


def _equal_shares_written(
    req_pool_indices: Array, req_to_token: Array, start_offsets: Array, end_offsets: Array, out_cache_loc: Array
) -> None:
    share = len(out_cache_loc) // max(len(req_pool_indices), 1)
    for request, row in enumerate(req_pool_indices):
        for place in range(int(end_offsets[request] - start_offsets[request])):
            slot = out_cache_loc[(request * share + place) % len(out_cache_loc)]
            req_to_token[row, start_offsets[request] + place] = slot


def _whole_row_written(
    req_pool_indices: Array, req_to_token: Array, start_offsets: Array, end_offsets: Array, out_cache_loc: Array
) -> None:
    used = 0
    for row, start, end in zip(req_pool_indices, start_offsets, end_offsets, strict=True):
        req_to_token[row, :start] = 0
        req_to_token[row, start:end] = out_cache_loc[used : used + end - start]
        used += int(end - start)


def _equal_shares_read(
    req_pool_indices: Array, req_to_token: Array, start_offsets: Array, end_offsets: Array, num_locations: int
) -> Array:
    requests = max(len(req_pool_indices), 1)
    share = -(-num_locations // requests)
    slots = [
        req_to_token[row, (start + place) % req_to_token.shape[1]]
        for row, start in zip(req_pool_indices, start_offsets, strict=True)
        for place in range(share)
    ]
    return np.array(slots[:num_locations], dtype=np.int64)


def _rows_of_the_batch(arguments: Named) -> None:
    count = len(arguments["req_pool_indices"])
    arguments["req_pool_indices"] = np.arange(count, dtype=np.int64) % max(len(arguments["req_to_token"]), 1)


def _starts_forgotten(arguments: Named) -> None:
    arguments["end_offsets"] = arguments["end_offsets"] - arguments["start_offsets"]
    arguments["start_offsets"] = np.zeros_like(arguments["start_offsets"])


_ASSIGN = "assign_req_to_token_pool"
_READ = "assign_extend_cache_locs"

MUTANTS = (
    Mutant("K04", _ASSIGN, "A range spills one position past its end.", instead(_ends_included)),
    Mutant("OWN-77", _ASSIGN, "Slots are shared out evenly.", instead(_equal_shares_written)),
    Mutant("OWN-78", _ASSIGN, "The positions before a range are cleared.", instead(_whole_row_written)),
    Mutant("OWN-79", _ASSIGN, "Ranges start at 0.", given(_starts_forgotten)),
    Mutant("X10", _READ, "Ragged ranges are viewed as equally long ones.", instead(_equal_shares_read)),
    Mutant("OWN-80", _READ, "The row is the place in the batch.", given(_rows_of_the_batch)),
    Mutant("OWN-81", _READ, "Ranges start at 0.", given(_starts_forgotten)),
)
