"""Faults in writing and reading the request-to-token map."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, instead, returning
from specsim.properties.mutants.tables import rows_of_the_batch

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


def _starts_forgotten(arguments: Named) -> None:
    arguments["end_offsets"] = arguments["end_offsets"] - arguments["start_offsets"]
    arguments["start_offsets"] = np.zeros_like(arguments["start_offsets"])


def _remapped(nodes_of: Callable[[Array, int], Array], offset: Callable[[Array], int] = lambda path: 0) -> Any:
    """Return a remap that maps and keeps the nodes that ``nodes_of`` makes of a path and the first node."""

    def remap(
        req_pool_indices: Array, req_to_token: Array, seq_lens: Array, out_cache_loc: Array, accept_index: Array
    ) -> Array:
        evict_mask = np.ones(len(out_cache_loc), dtype=np.bool_)
        num_nodes = len(out_cache_loc) // max(len(accept_index), 1)
        for request, entries in enumerate(accept_index):
            path = entries[entries >= 0]
            nodes = nodes_of(path, request * num_nodes)
            start = int(seq_lens[request]) + offset(path)
            req_to_token[req_pool_indices[request], start : start + len(nodes)] = out_cache_loc[nodes]
            evict_mask[nodes] = False
        return evict_mask

    return instead(remap)


def _root_freed(outputs: Named, arguments: Named) -> None:
    outputs["evict_mask"][arguments["accept_index"][:, 0]] = True


_ASSIGN = "assign_req_to_token_pool"
_READ = "assign_extend_cache_locs"
_REMAP = "remap_accepted_slots"

MUTANTS = (
    Mutant("K04", _ASSIGN, "A range spills one position past its end.", instead(_ends_included)),
    Mutant("OWN-77", _ASSIGN, "Slots are shared out evenly.", instead(_equal_shares_written)),
    Mutant("OWN-78", _ASSIGN, "The positions before a range are cleared.", instead(_whole_row_written)),
    Mutant("OWN-79", _ASSIGN, "Ranges start at 0.", given(_starts_forgotten)),
    Mutant("X10", _READ, "Ragged ranges are viewed as equally long ones.", instead(_equal_shares_read)),
    Mutant("OWN-80", _READ, "The row is the place in the batch.", given(rows_of_the_batch)),
    Mutant("OWN-81", _READ, "Ranges start at 0.", given(_starts_forgotten)),
    Mutant(
        "OWN-190",
        _REMAP,
        "The first nodes of the tree are kept, as if the path were compacted.",
        _remapped(lambda path, first: first + np.arange(len(path))),
    ),
    Mutant(
        "OWN-191",
        _REMAP,
        "Positions start after the verify, not before it.",
        _remapped(lambda path, first: path, offset=len),
    ),
    Mutant("OWN-192", _REMAP, "The root's slot is freed.", returning(_root_freed)),
)
