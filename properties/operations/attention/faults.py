"""Faults in attention metadata for trees."""

from collections.abc import Callable

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import Function, given, mutants_by_operation, returning, with_arguments
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages


def _configured_queries(starts: str, width: str) -> Callable[[Function], Function]:
    return edited(f"{starts}[request] + {width}", f"{starts}[request] + 4")


def _offsets_moved(windows: int) -> Callable[[Function], Function]:
    """Inject offsets of keys that count so many windows more, without other keys."""
    return returning(lambda outputs, _: outputs.update(kv_indptr=outputs["kv_indptr"] + windows * outputs["qo_indptr"]))


_window_counted = edited("cache_seqlens[request] = length", "cache_seqlens[request] = length + num_nodes")
_first_columns = edited(
    "tree_mask[start + length : start + length + num_nodes]", "tree_mask[start : start + num_nodes]"
)
_masks_of_one_length = edited(
    "expand_cache_seqlens[request * num_nodes + node] = len(seen)",
    """
    longest = int(seq_lens.max())
    own = tree_mask[(request * num_nodes + node) * (longest + num_nodes) + longest :][:num_nodes]
    expand_cache_seqlens[request * num_nodes + node] = num_nodes - np.count_nonzero(~own)
    """,
)
_pages_of_nodes = edited("row[length + other]", "row[length + other] // page_size")
_keys_from_position_one = with_arguments(req_to_token=lambda rows: np.roll(rows, -1, axis=1))

MUTANTS = mutants_by_operation(
    verify_cascade_metadata=(
        ("OWN-337", "The row is the place in the batch.", given(rows_of_the_batch)),
        ("OWN-338", "The first pass reads the window too.", _window_counted),
        ("OWN-339", "Queries have the configured width.", _configured_queries("cu_seqlens_q", "num_nodes")),
        ("OWN-340", "The second pass counts the prefix.", edited("len(seen)", "len(seen) + length")),
        ("OWN-341", "Visible nodes are read from the mask's first columns.", _first_columns),
        ("OWN-342", "Nodes stand in order, seen or not.", edited("seen + unseen", "range(num_nodes)")),
        ("OWN-343", "Seen nodes stand backwards.", edited("seen + unseen", "seen[::-1] + unseen")),
        ("OWN-344", "The window is read from the start of the row.", edited("row[length + other]", "row[other]")),
        ("OWN-345", "All masks are as long as the longest.", _masks_of_one_length),
        ("OWN-738", "Slots stand where pages should.", returning(slots_for_pages)),
        ("OWN-739", "Every position is read as a page of its own.", returning(every_position_a_page)),
        ("OWN-740", "The second pass reads pages, too.", _pages_of_nodes),
    ),
    verify_custom_mask_metadata=(
        ("OWN-346", "A short mask is continued by invisible entries.", edited("np.ones", "np.zeros")),
        ("OWN-347", "Key offsets leave the window out.", _offsets_moved(-1)),
        ("OWN-348", "Keys start at position 1.", _keys_from_position_one),
        ("OWN-349", "The row is the place in the batch.", given(rows_of_the_batch)),
    ),
    verify_extend_metadata=(
        ("OWN-350", "Key offsets count the window.", _offsets_moved(1)),
        ("OWN-351", "Keys start at position 1.", _keys_from_position_one),
        ("OWN-352", "Mask offsets leave the window out.", edited("length + num_draft_tokens", "length")),
        ("OWN-353", "Mask offsets leave the prefix out.", edited("length + num_draft_tokens", "num_draft_tokens")),
        ("OWN-354", "Queries have the configured width.", _configured_queries("qo_indptr", "num_draft_tokens")),
    ),
)
