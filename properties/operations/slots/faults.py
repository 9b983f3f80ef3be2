"""Faults in writing and reading the request-to-token map."""

import numpy as np

from specsim.properties.mutants.record import Named, edits_of, given, mutants_by_operation, with_arguments
from specsim.properties.mutants.tables import front_of_the_window, rows_of_the_batch


def _starts_forgotten(arguments: Named) -> None:
    arguments["end_offsets"] = arguments["end_offsets"] - arguments["start_offsets"]
    arguments["start_offsets"] = np.zeros_like(arguments["start_offsets"])


DIFFS = """
    @@ assign_req_to_token_pool
    K04 A range spills one position past its end.
      used += 1
    + if position == end_offsets[request] - 1 and position + 1 < req_to_token.shape[1] and used < len(out_cache_loc):
    +     req_to_token[req_pool_indices[request], position + 1] = out_cache_loc[used]
    OWN-77 Slots are shared out evenly.
    - req_to_token[req_pool_indices[request], position] = out_cache_loc[used]
    + share = request * (len(out_cache_loc) // len(start_offsets)) + position - start_offsets[request]
    + req_to_token[req_pool_indices[request], position] = out_cache_loc[share % len(out_cache_loc)]
    OWN-78 The positions before a range are cleared.
      used = 0
    + for row, start in zip(req_pool_indices, start_offsets):
    +     req_to_token[row, :start] = 0
    @@ assign_extend_cache_locs
    X10 Ragged ranges are viewed as equally long ones.
    - end_offsets[request]
    + start_offsets[request] + min(-(-num_locations // len(start_offsets)), num_locations - used)
    - req_to_token[req_pool_indices[request], position]
    + req_to_token[req_pool_indices[request], position % req_to_token.shape[1]]
    @@ remap_accepted_slots
    OWN-192 The root's slot is freed.
    - evict_mask[node] = False => evict_mask[node] = place == 0
    OWN-191 Positions start after the verify, not before it.
    - req_to_token[req_pool_indices[request], seq_lens[request] + place] = out_cache_loc[node]
    + late = seq_lens[request] + (accept_index[request] >= 0).sum() + place
    + req_to_token[req_pool_indices[request], late : late + 1] = out_cache_loc[node]
"""

_in_front = with_arguments(accept_index=front_of_the_window)

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    assign_req_to_token_pool=(("OWN-79", "Ranges start at 0.", given(_starts_forgotten)),),
    assign_extend_cache_locs=(
        ("OWN-80", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-81", "Ranges start at 0.", given(_starts_forgotten)),
    ),
    remap_accepted_slots=(
        ("OWN-190", "The first nodes of the tree are kept, as if the path were compacted.", _in_front),
    ),
)
