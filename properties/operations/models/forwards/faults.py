"""Faults in the forwards: what is written, what is seen, and what is carried on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from specsim.hashing import MASK
from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    answering,
    given,
    mutants_by_operation,
    of_the_first,
    returning,
    with_arguments,
)
from specsim.properties.mutants.tables import newest_key_unseen
from specsim.reference.models.folds import own_keys

_SQUARES = "tree_mask.reshape(len(keys), *(widths[:1] * 2))"

_CONTEXT_WORDS = "hidden_states[:, num_layers] = sight.context_words(kv_buffers[0], positions)"

_own_keys = partial(edited, within=own_keys)


def _at_last(statement: str) -> Callable[[Function], Function]:
    """Inject a statement with which the target's forward ends."""
    return edited(_CONTEXT_WORDS, f"{_CONTEXT_WORDS}\n{statement}", within="run_target")


def _first_new_positions(arguments: Named) -> None:
    lengths = arguments["cache_seqlens"] - np.diff(arguments["cu_seqlens_q"])
    arguments["positions"] = np.repeat(lengths.astype(np.int64), np.diff(arguments["cu_seqlens_q"]))


def _page_size_of_another_pool(arguments: Named) -> None:
    table, other = arguments["page_table"], 2 * arguments["page_size"]
    position = np.arange(table.shape[1] * arguments["page_size"])
    flat = table[:, position // other] * other + position % other
    arguments.update(page_table=(flat % len(arguments["kv_buffers"][0])).astype(np.int32), page_size=1)


def _later_layers_unwritten(correct: Function, arguments: Named) -> Any:
    """Refresh the first layer's rows alone; later layers keep what lay there."""
    before = [buffer.copy() for buffer in arguments["kv_buffers"]]
    outputs = correct(**arguments)
    for buffer, old in zip(arguments["kv_buffers"][2:], before[2:], strict=True):
        buffer[...] = old
    return outputs


def _values_unwritten(outputs: Named, arguments: Named) -> None:
    for buffer in arguments["kv_buffers"][1::2]:
        buffer[arguments["out_cache_loc"]] = 0


def _dump_slot_wraps(outputs: Named, arguments: Named) -> None:
    if (arguments["out_cache_loc"] == 0).any():
        for buffer in arguments["kv_buffers"]:
            buffer[-1] = buffer[0]


def _slot_after_written(outputs: Named, arguments: Named) -> None:
    for buffer in arguments["kv_buffers"]:
        slots = np.setdiff1d(arguments["out_cache_loc"] + 1, arguments["out_cache_loc"])
        buffer[slots[slots < len(buffer)]] = 0


def _next_state_from_the_cache(outputs: Named, arguments: Named) -> None:
    outputs["next_hidden_states"][:, 0] = (outputs["next_hidden_states"][:, 0] + outputs["context"]) & MASK


def _lists_of_the_first_length(arguments: Named) -> None:
    ends = arguments["kv_indptr"]
    arguments["kv_indptr"] = (np.arange(len(ends)) * (int(ends[-1]) // max(len(ends) - 1, 1))).astype(np.int32)


_cached_prefix_unseen = _own_keys(
    "np.arange(length)", "np.arange(max(length - np.diff(cu_seqlens_q)[request], 0), length)"
)
_cache_unread = edited(
    "digest_rows(folds)", "digest_rows(np.column_stack([hidden_states, input_ids]))", within="run_draft"
)
_fold_by_slot = _at_last("hidden_states[:, :-1] = (hidden_states[:, :-1] + out_cache_loc[:, None]) & MASK")
_whole_pool_seen = _at_last(
    "hidden_states[:, :-1] += sum(int(buffer[1:, 1].sum()) for buffer in kv_buffers)\nhidden_states &= MASK"
)
_residual_dropped = edited(
    "next_hidden_states[:, layer] = below",
    "next_hidden_states[:, layer] = (below - hidden_states[:, layer]) & MASK",
    within="advance",
)
_saved_state_returned = edited(
    "advance(hidden_states, input_ids, positions + 1)", "hidden_states.copy()", within="run_draft"
)
_masks_of_the_first = _own_keys(_SQUARES, f"np.resize({_SQUARES}[:1], {_SQUARES}.shape)")

MUTANTS = mutants_by_operation(
    target_forward=(
        ("OWN-88", "The tree mask is ignored.", with_arguments(tree_mask=None)),
        ("OWN-89", "The tree mask is transposed.", _own_keys(_SQUARES, f"[square.T for square in {_SQUARES}]")),
        ("OWN-90", "Every request has the mask of the first.", _masks_of_the_first),
        ("OWN-91", "Every new token sees every other.", _own_keys(_SQUARES, f"np.ones_like({_SQUARES})")),
        ("OWN-92", "All new tokens stand at the first new position.", given(_first_new_positions)),
        ("OWN-93", "Every request reads the pages of the first.", of_the_first("page_table")),
        ("OWN-94", "The prefix is not seen.", _cached_prefix_unseen),
        ("OWN-95", "V entries are not written.", returning(_values_unwritten)),
        ("OWN-96", "Components are confused.", _at_last("for buffer in kv_buffers:\n    buffer[out_cache_loc, 3] = 0")),
        ("OWN-97", "Padding writes the last slot.", returning(_dump_slot_wraps)),
        ("OWN-98", "The slot after each new one is cleared.", returning(_slot_after_written)),
        ("OWN-99", "A state depends on the slot number.", _fold_by_slot),
        ("OWN-100", "Later layers repeat the first.", _at_last("hidden_states[:, 1:-1] = hidden_states[:, :1]")),
        ("OWN-101", "The context word holds one token.", _at_last("hidden_states[:, -1] &= 0xFF")),
        ("OWN-102", "Entries of the whole pool are seen.", _whole_pool_seen),
    ),
    draft_extend_forward=(
        ("D10", "Slots are found with the page size of another pool.", given(_page_size_of_another_pool)),
        ("X17", "Only the first draft layer is refreshed.", answering(_later_layers_unwritten)),
        ("D02", "The residual is dropped from the state that is carried on.", _residual_dropped),
        ("OWN-103", "The draft cache is not read.", _cache_unread),
        ("OWN-104", "The carried state depends on the cache.", returning(_next_state_from_the_cache)),
        ("OWN-105", "The prefix is not seen.", _cached_prefix_unseen),
        ("OWN-106", "V entries are not written.", returning(_values_unwritten)),
    ),
    draft_decode_forward=(
        ("D03", "The saved state is carried on instead of the new one.", _saved_state_returned),
        ("OWN-107", "A beam does not see its newest entry.", given(newest_key_unseen)),
        ("OWN-108", "All lists are equally long.", given(_lists_of_the_first_length)),
        ("OWN-109", "Positions do not advance.", with_arguments(positions=np.zeros_like)),
        ("OWN-110", "Padding writes the last slot.", returning(_dump_slot_wraps)),
    ),
)
