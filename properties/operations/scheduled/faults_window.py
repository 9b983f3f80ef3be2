"""Faults of ragged verification: windows and padding, metadata, the cut of an acceptance, and commits."""

import numpy as np

from specsim.properties.mutants.record import (
    edits_of,
    given,
    mutants_by_operation,
    of_the_neighbour,
    returning,
    with_arguments,
    with_outputs,
)
from specsim.properties.mutants.tables import rows_of_the_batch, slots_for_pages

# OWN-4008: what lies after the cut is a row of 0, of which the largest is token 0.
# OWN-4012: slots of rows that the gate keeps out are read as far as the row goes.
DIFFS = """
    @@ ragged_verify_window
    OWN-4011 Positions are those of whole chains.
    - positions[start + node] = length + node
    + positions[start + node] = seq_lens[(start + node) // width] + (start + node) % width
    OWN-4013 Rows that are left are further rows of the last request.
    - return RaggedVerifyWindowOutputs(qo_indptr, input_ids, positions, out_cache_loc, window_index)
    + if len(verify_lens):
    +     further = slots[length + verify_lens[-1] :][: num_tokens - qo_indptr[-1]]
    +     out_cache_loc[qo_indptr[-1] :][: len(further)] = further
    +     positions[qo_indptr[-1] :][: len(further)] = length + verify_lens[-1] + np.arange(len(further))
    + return RaggedVerifyWindowOutputs(qo_indptr, input_ids, positions, out_cache_loc, window_index)
    OWN-4015 Padding writes the slot of the first row.
    - return RaggedVerifyWindowOutputs(qo_indptr, input_ids, positions, out_cache_loc, window_index)
    + out_cache_loc[qo_indptr[-1] :] = out_cache_loc[:1]
    + return RaggedVerifyWindowOutputs(qo_indptr, input_ids, positions, out_cache_loc, window_index)
    OWN-4032 Tokens are those of whole chains.
    - candidates[request, node] => candidates.reshape(-1)[start + node]
    OWN-4033 Nodes are numbered by row.
    - request * width + node => start + node
    OWN-4034 Positions have already advanced.
    - positions[start + node] = length + node => positions[start + node] = length + node + 1
    @@ pad_verify_lens_to_bucket
    OWN-4040 Rows that do not divide go to the last padding.
    - place < left % num_padding => num_padding - 1 - place < left % num_padding
    OWN-4041 Rows that do not divide are lost.
    - left // num_padding + (1 if place < left % num_padding else 0) => left // num_padding
    OWN-4042 A full batch keeps its lengths.
    - padded_verify_lens[-1] += left
    OWN-4044 The first padding gets all rows that are left.
    - left // num_padding + (1 if place < left % num_padding else 0) => 0 if place else left
    @@ scatter_compact_to_strided
    OWN-4045 A block reads on into the next request.
    - range(verify_lens[request]) => range(min(width, len(values) - start))
    OWN-4046 Rows stay where they are.
    - strided[request * width + node] => strided[start + node]
    OWN-4047 Rows that were not verified repeat the last one.
    - range(verify_lens[request]) => range(width if verify_lens[request] else 0)
    - values[start + node] => values[start + min(node, verify_lens[request] - 1)]
    @@ ragged_verify_metadata in lay_out_verify
    OWN-4016 Query offsets are those of whole chains.
    - cu_seqlens_q[request] + num_queries[request] => cu_seqlens_q[request] + max(num_queries)
    OWN-4048 Keys are those of whole chains.
    - seq_lens[request] + num_queries[request] => seq_lens[request] + max(num_queries)
    OWN-4049 Keys are those of the text alone.
    - seq_lens[request] + num_queries[request] => seq_lens[request]
    @@ cap_accepted_drafts
    OWN-4006 Nothing is cut.
    - num_kept_drafts[request] = kept => num_kept_drafts[request] = accepted
    - candidates[request, kept + 1] if kept < accepted else bonus_tokens[request] => bonus_tokens[request]
    OWN-4007 Drafts are cut, and the token is that of the whole walk.
    - candidates[request, kept + 1] if kept < accepted else bonus_tokens[request] => bonus_tokens[request]
    OWN-4008 The token at the cut is that of the row after it.
    - candidates[request, kept + 1] => 0
    OWN-4055 The token at the cut is the last draft that was kept.
    - candidates[request, kept + 1] => candidates[request, kept]
    OWN-4056 The cut is one draft late.
    - int(verify_lens[request]) - 1 => min(int(verify_lens[request]), candidates.shape[1] - 1)
    @@ commit_inject_layout
    OWN-4017 The drafts are injected without their root.
    - int(commit_lens[request]) => max(int(commit_lens[request]) - 1, 0)
    OWN-4012 Rows are injected whatever the gate says.
    - min(committed, int(verify_lens[request]))
    + committed if ring_size else min(committed, max(req_to_token.shape[1] - length, 0))
    OWN-4058 All verified rows are injected.
    - min(committed, int(verify_lens[request])) => int(verify_lens[request])
    OWN-4090 Rows that are not injected have no position.
    - positions[place] = length + node => positions[place] = length + node if node < committed else 0
    OWN-4091 All requests share a ring.
    - row * ring_size + (length + node) % ring_size => (length + node) % ring_size
    OWN-4092 A ring starts with the window.
    - (length + node) % ring_size => node % ring_size
"""

_to_the_dump = with_outputs(inject_loc=lambda places: np.maximum(places, 0))

MUTANTS = mutants_by_operation(
    edits_of(DIFFS),
    ragged_verify_window=(
        ("OWN-4010", "Padding names node 0.", with_outputs(window_index=lambda index: np.maximum(index, 0))),
        ("OWN-4035", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-4036", "Lengths are those of the neighbour.", of_the_neighbour("seq_lens")),
    ),
    pad_verify_lens_to_bucket=(("OWN-4043", "Lengths are not cut.", with_arguments(max_verify_len=2**31 - 1)),),
    ragged_verify_metadata=(
        ("OWN-4050", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-4051", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
    cap_accepted_drafts=(
        ("OWN-4014", "Drafts that were never computed are counted as lost.", with_arguments(is_compact=False)),
        ("OWN-4057", "No draft is counted as lost.", with_outputs(cap_trim_lens=np.zeros_like)),
    ),
    commit_inject_layout=(
        ("OWN-4059", "Rows that are not injected go to slot 0.", _to_the_dump),
        ("OWN-4093", "Slots are those of the target.", with_arguments(slot_map=None)),
    ),
)
