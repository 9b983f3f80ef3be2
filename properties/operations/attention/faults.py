"""Faults in attention metadata for trees."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import Mutant, Named, given, returning
from specsim.properties.mutants.tables import every_position_a_page, rows_of_the_batch, slots_for_pages

Array = Any
CONFIGURED_WIDTH = 4


def _window_counted(outputs: Named, arguments: Named) -> None:
    outputs["cache_seqlens"] = (arguments["seq_lens"] + arguments["num_draft_tokens"]).astype(np.int32)


def _configured_queries(name: str) -> Callable[[Named, Named], None]:
    def change(outputs: Named, arguments: Named) -> None:
        outputs[name] = (np.arange(len(outputs[name])) * CONFIGURED_WIDTH).astype(np.int32)

    return change


def _prefix_counted_with_the_nodes(outputs: Named, arguments: Named) -> None:
    lengths = np.repeat(arguments["seq_lens"], arguments["num_draft_tokens"])
    outputs["expand_cache_seqlens"] = (outputs["expand_cache_seqlens"] + lengths).astype(np.int32)


def _mask_rows(arguments: Named) -> list[tuple[int, int, Array]]:
    """Return (row, committed length, mask of prefix and window) of every node."""
    width, start, rows = arguments["num_draft_tokens"], 0, []
    for request, length in enumerate(arguments["seq_lens"].tolist()):
        for node in range(width):
            rows.append((request * width + node, length, arguments["tree_mask"][start : start + length + width]))
            start += length + width
    return rows


def _relisted(order: Callable[[Array], Array], from_front: bool = False) -> Callable[[Named, Named], None]:
    def change(outputs: Named, arguments: Named) -> None:
        width = arguments["num_draft_tokens"]
        for row, length, mask in _mask_rows(arguments):
            sees = mask[:width] if from_front else mask[length:]
            slots = arguments["req_to_token"][arguments["req_pool_indices"][row // width], length : length + width]
            outputs["expand_page_table"][row] = slots[order(sees)]
            outputs["expand_cache_seqlens"][row] = sees.sum()

    return change


def _by_visibility(sees: Array) -> Array:
    return np.argsort(~sees, kind="stable")


def _as_they_stand(sees: Array) -> Array:
    return np.arange(len(sees))


def _backwards(sees: Array) -> Array:
    return np.concatenate([np.flatnonzero(sees)[::-1], np.flatnonzero(~sees)])


def _window_at_the_front(outputs: Named, arguments: Named) -> None:
    width = arguments["num_draft_tokens"]
    for row, length, mask in _mask_rows(arguments):
        slots = arguments["req_to_token"][arguments["req_pool_indices"][row // width], :width]
        outputs["expand_page_table"][row] = slots[_by_visibility(mask[length:])]


def _masks_of_one_length(outputs: Named, arguments: Named) -> None:
    longest = {**arguments, "seq_lens": np.full_like(arguments["seq_lens"], arguments["seq_lens"].max(initial=0))}
    width, lengths = arguments["num_draft_tokens"], longest["seq_lens"]
    missing = width * (int(lengths.sum()) + width * len(lengths))
    padded = np.concatenate([arguments["tree_mask"], np.ones(missing, dtype=np.bool_)])
    for row, length, mask in _mask_rows({**longest, "tree_mask": padded}):
        outputs["expand_cache_seqlens"][row] = mask[length:].sum()


def _extended_by_invisible(outputs: Named, arguments: Named) -> None:
    outputs["custom_mask"][len(arguments["tree_mask"]) :] = False


def _window_left_out(outputs: Named, arguments: Named) -> None:
    outputs["kv_indptr"][1:] = np.cumsum(arguments["seq_lens"])


def _window_left_in(outputs: Named, arguments: Named) -> None:
    lengths = arguments["seq_lens"] + arguments["num_draft_tokens"]
    outputs["kv_indptr"][1:] = np.cumsum(lengths)


def _keys_from_position_one(outputs: Named, arguments: Named) -> None:
    for request, (first, last) in enumerate(zip(outputs["kv_indptr"][:-1], outputs["kv_indptr"][1:], strict=True)):
        row = arguments["req_to_token"][arguments["req_pool_indices"][request]]
        outputs["kv_indices"][first:last] = np.resize(row[1:], last - first) if len(row) > 1 else row[:1]


def _mask_without_the_window(outputs: Named, arguments: Named) -> None:
    sizes = arguments["seq_lens"].astype(np.int64) * arguments["num_draft_tokens"]
    outputs["mask_indptr"][1:] = np.cumsum(sizes)


def _mask_of_the_window_alone(outputs: Named, arguments: Named) -> None:
    count = len(arguments["seq_lens"])
    outputs["mask_indptr"] = (np.arange(count + 1) * arguments["num_draft_tokens"] ** 2).astype(np.int64)


def _pages_of_nodes(outputs: Named, arguments: Named) -> None:
    outputs["expand_page_table"] = (outputs["expand_page_table"] // arguments["page_size"]).astype(np.int32)


_CASCADE = "verify_cascade_metadata"
_CUSTOM = "verify_custom_mask_metadata"
_EXTEND = "verify_extend_metadata"

MUTANTS = (
    Mutant("OWN-337", _CASCADE, "The row is the place in the batch.", given(rows_of_the_batch)),
    Mutant("OWN-338", _CASCADE, "The first pass reads the window too.", returning(_window_counted)),
    Mutant("OWN-339", _CASCADE, "Queries have the configured width.", returning(_configured_queries("cu_seqlens_q"))),
    Mutant("OWN-340", _CASCADE, "The second pass counts the prefix.", returning(_prefix_counted_with_the_nodes)),
    Mutant(
        "OWN-341",
        _CASCADE,
        "Visible nodes are read from the mask's first columns.",
        returning(_relisted(_by_visibility, from_front=True)),
    ),
    Mutant("OWN-342", _CASCADE, "Nodes stand in order, seen or not.", returning(_relisted(_as_they_stand))),
    Mutant("OWN-343", _CASCADE, "Seen nodes stand backwards.", returning(_relisted(_backwards))),
    Mutant("OWN-344", _CASCADE, "The window is read from the start of the row.", returning(_window_at_the_front)),
    Mutant("OWN-345", _CASCADE, "All masks are as long as the longest.", returning(_masks_of_one_length)),
    Mutant("OWN-738", _CASCADE, "Slots stand where pages should.", returning(slots_for_pages)),
    Mutant("OWN-739", _CASCADE, "Every position is read as a page of its own.", returning(every_position_a_page)),
    Mutant("OWN-740", _CASCADE, "The second pass reads pages, too.", returning(_pages_of_nodes)),
    Mutant("OWN-346", _CUSTOM, "A short mask is continued by invisible entries.", returning(_extended_by_invisible)),
    Mutant("OWN-347", _CUSTOM, "Key offsets leave the window out.", returning(_window_left_out)),
    Mutant("OWN-348", _CUSTOM, "Keys start at position 1.", returning(_keys_from_position_one)),
    Mutant("OWN-349", _CUSTOM, "The row is the place in the batch.", given(rows_of_the_batch)),
    Mutant("OWN-350", _EXTEND, "Key offsets count the window.", returning(_window_left_in)),
    Mutant("OWN-351", _EXTEND, "Keys start at position 1.", returning(_keys_from_position_one)),
    Mutant("OWN-352", _EXTEND, "Mask offsets leave the window out.", returning(_mask_without_the_window)),
    Mutant("OWN-353", _EXTEND, "Mask offsets leave the prefix out.", returning(_mask_of_the_window_alone)),
    Mutant("OWN-354", _EXTEND, "Queries have the configured width.", returning(_configured_queries("qo_indptr"))),
)
