"""Faults in writing and reading the request-to-token map."""

from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Named, given, instead, mutants_by_operation, with_arguments
from specsim.properties.mutants.tables import front_of_the_window, rows_of_the_batch

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


def _starts_forgotten(arguments: Named) -> None:
    arguments["end_offsets"] = arguments["end_offsets"] - arguments["start_offsets"]
    arguments["start_offsets"] = np.zeros_like(arguments["start_offsets"])


_fronts_cleared = edited(
    "used = 0", "used = 0\nfor row, start in zip(req_pool_indices, start_offsets):\n    req_to_token[row, :start] = 0"
)
_equal_shares_written = edited(
    "out_cache_loc[used]",
    "out_cache_loc[(request * (len(out_cache_loc) // len(start_offsets)) + position - start_offsets[request])"
    " % len(out_cache_loc)]",
)
_equal_shares_read = edited(
    "end_offsets[request]",
    "start_offsets[request] + min(-(-num_locations // len(start_offsets)), num_locations - used)",
    "req_to_token[req_pool_indices[request], position]",
    "req_to_token[req_pool_indices[request], position % req_to_token.shape[1]]",
)
_after_the_verify = edited(
    "req_to_token[req_pool_indices[request], seq_lens[request] + place] = out_cache_loc[node]",
    """
    late = seq_lens[request] + (accept_index[request] >= 0).sum() + place
    req_to_token[req_pool_indices[request], late : late + 1] = out_cache_loc[node]
    """,
)
_in_front = with_arguments(accept_index=front_of_the_window)

MUTANTS = mutants_by_operation(
    assign_req_to_token_pool=(
        ("K04", "A range spills one position past its end.", instead(_ends_included)),
        ("OWN-77", "Slots are shared out evenly.", _equal_shares_written),
        ("OWN-78", "The positions before a range are cleared.", _fronts_cleared),
        ("OWN-79", "Ranges start at 0.", given(_starts_forgotten)),
    ),
    assign_extend_cache_locs=(
        ("X10", "Ragged ranges are viewed as equally long ones.", _equal_shares_read),
        ("OWN-80", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-81", "Ranges start at 0.", given(_starts_forgotten)),
    ),
    remap_accepted_slots=(
        ("OWN-190", "The first nodes of the tree are kept, as if the path were compacted.", _in_front),
        ("OWN-191", "Positions start after the verify, not before it.", _after_the_verify),
        ("OWN-192", "The root's slot is freed.", edited("evict_mask[node] = False", "evict_mask[node] = place == 0")),
    ),
)
