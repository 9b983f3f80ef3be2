"""Faults in the forwards: what is written, what is seen, and what is carried on."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.hashing import MASK, digest
from specsim.properties.mutants.record import (
    Function,
    Mutant,
    Named,
    answering,
    given,
    of_the_first,
    returning,
    with_arguments,
)
from specsim.properties.mutants.tables import newest_key_unseen

Array = Any


def _squares(arguments: Named) -> Array | None:
    mask, requests = arguments["tree_mask"], len(arguments["cache_seqlens"])
    if mask is None or not requests or not mask.size:
        return None
    width = int(arguments["cu_seqlens_q"][1])
    return mask.reshape(requests, width, width)


def _masked(change: Callable[[Array], Array]) -> Callable[[Function], Function]:
    """Inject a fault that sees another mask, square by square."""

    def masked(arguments: Named) -> None:
        squares = _squares(arguments)
        if squares is not None:
            arguments["tree_mask"] = change(squares).reshape(-1)

    return given(masked)


def _first_new_positions(arguments: Named) -> None:
    lengths = arguments["cache_seqlens"] - np.diff(arguments["cu_seqlens_q"])
    arguments["positions"] = np.repeat(lengths.astype(np.int64), np.diff(arguments["cu_seqlens_q"]))


def _page_size_of_another_pool(arguments: Named) -> None:
    size, slots = arguments["page_size"], len(arguments["kv_buffers"][0])
    table = arguments["page_table"]
    width = table.shape[1] * size
    position = np.arange(width)
    other = 2 * size
    flat = table[:, position // other] * other + position % other
    arguments["page_table"], arguments["page_size"] = (flat % slots).astype(np.int32), 1


def _cached_prefix_unseen(arguments: Named) -> None:
    size, table = arguments["page_size"], arguments["page_table"]
    widths = np.diff(arguments["cu_seqlens_q"])
    position = np.arange(table.shape[1] * size)
    slots = table[:, position // size] * size + position % size
    moved = np.zeros_like(slots)
    for request, (length, width) in enumerate(zip(arguments["cache_seqlens"].tolist(), widths, strict=True)):
        moved[request, :width] = slots[request, length - width : length]
    arguments.update(page_table=moved.astype(np.int32), page_size=1, cache_seqlens=widths.astype(np.int32))


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


def _components_unmarked(outputs: Named, arguments: Named) -> None:
    for buffer in arguments["kv_buffers"]:
        buffer[arguments["out_cache_loc"], 3] = 0


def _dump_slot_wraps(outputs: Named, arguments: Named) -> None:
    if (arguments["out_cache_loc"] == 0).any():
        for buffer in arguments["kv_buffers"]:
            buffer[-1] = buffer[0]


def _slot_after_written(outputs: Named, arguments: Named) -> None:
    for buffer in arguments["kv_buffers"]:
        slots = np.setdiff1d(arguments["out_cache_loc"] + 1, arguments["out_cache_loc"])
        buffer[slots[slots < len(buffer)]] = 0


def _fold_by_slot(outputs: Named, arguments: Named) -> None:
    slots = arguments["out_cache_loc"][:, None]
    outputs["hidden_states"][:, :-1] = (outputs["hidden_states"][:, :-1] + slots) & MASK


def _first_layer_only(outputs: Named, arguments: Named) -> None:
    outputs["hidden_states"][:, 1:-1] = outputs["hidden_states"][:, :1]


def _context_of_one_token(outputs: Named, arguments: Named) -> None:
    outputs["hidden_states"][:, -1] = outputs["hidden_states"][:, -1] & 0xFF


def _littered_neighbours(outputs: Named, arguments: Named) -> None:
    pool = sum(int(buffer[1:, 1].sum()) for buffer in arguments["kv_buffers"])
    outputs["hidden_states"][:, :-1] = (outputs["hidden_states"][:, :-1] + pool) & MASK


def _residual_dropped(outputs: Named, arguments: Named) -> None:
    states = (outputs["next_hidden_states"] - arguments["hidden_states"]) & MASK
    outputs["next_hidden_states"][:, :-1] = states[:, :-1]


def _saved_state_returned(outputs: Named, arguments: Named) -> None:
    outputs["next_hidden_states"] = arguments["hidden_states"].copy()


def _cache_unread(outputs: Named, arguments: Named) -> None:
    words = [
        digest([*row, token])
        for row, token in zip(arguments["hidden_states"].tolist(), arguments["input_ids"].tolist(), strict=True)
    ]
    outputs["context"] = np.array(words, dtype=np.int64)


def _next_state_from_the_cache(outputs: Named, arguments: Named) -> None:
    outputs["next_hidden_states"][:, 0] = (outputs["next_hidden_states"][:, 0] + outputs["context"]) & MASK


def _lists_of_the_first_length(arguments: Named) -> None:
    ends = arguments["kv_indptr"]
    count = len(ends) - 1
    if count and ends[-1] > 0:
        step = int(ends[-1]) // count
        arguments["kv_indptr"] = (np.arange(count + 1) * step).astype(np.int32)


_TARGET = "target_forward"
_EXTEND = "draft_extend_forward"
_DECODE = "draft_decode_forward"

MUTANTS = (
    Mutant("OWN-88", _TARGET, "The tree mask is ignored.", with_arguments(tree_mask=None)),
    Mutant("OWN-89", _TARGET, "The tree mask is transposed.", _masked(lambda squares: squares.transpose(0, 2, 1))),
    Mutant(
        "OWN-90",
        _TARGET,
        "Every request has the mask of the first.",
        _masked(lambda squares: np.resize(squares[0], squares.shape)),
    ),
    Mutant("OWN-91", _TARGET, "Every new token sees every other.", _masked(np.ones_like)),
    Mutant("OWN-92", _TARGET, "All new tokens stand at the first new position.", given(_first_new_positions)),
    Mutant("OWN-93", _TARGET, "Every request reads the pages of the first.", of_the_first("page_table")),
    Mutant("OWN-94", _TARGET, "The prefix is not seen.", given(_cached_prefix_unseen)),
    Mutant("OWN-95", _TARGET, "V entries are not written.", returning(_values_unwritten)),
    Mutant("OWN-96", _TARGET, "Components are confused.", returning(_components_unmarked)),
    Mutant("OWN-97", _TARGET, "Padding writes the last slot.", returning(_dump_slot_wraps)),
    Mutant("OWN-98", _TARGET, "The slot after each new one is cleared.", returning(_slot_after_written)),
    Mutant("OWN-99", _TARGET, "A state depends on the slot number.", returning(_fold_by_slot)),
    Mutant("OWN-100", _TARGET, "Later layers repeat the first.", returning(_first_layer_only)),
    Mutant("OWN-101", _TARGET, "The context word holds one token.", returning(_context_of_one_token)),
    Mutant("OWN-102", _TARGET, "Entries of the whole pool are seen.", returning(_littered_neighbours)),
    Mutant("D10", _EXTEND, "Slots are found with the page size of another pool.", given(_page_size_of_another_pool)),
    Mutant("X17", _EXTEND, "Only the first draft layer is refreshed.", answering(_later_layers_unwritten)),
    Mutant("D02", _EXTEND, "The residual is dropped from the state that is carried on.", returning(_residual_dropped)),
    Mutant("OWN-103", _EXTEND, "The draft cache is not read.", returning(_cache_unread)),
    Mutant("OWN-104", _EXTEND, "The carried state depends on the cache.", returning(_next_state_from_the_cache)),
    Mutant("OWN-105", _EXTEND, "The prefix is not seen.", given(_cached_prefix_unseen)),
    Mutant("OWN-106", _EXTEND, "V entries are not written.", returning(_values_unwritten)),
    Mutant("D03", _DECODE, "The saved state is carried on instead of the new one.", returning(_saved_state_returned)),
    Mutant("OWN-107", _DECODE, "A beam does not see its newest entry.", given(newest_key_unseen)),
    Mutant("OWN-108", _DECODE, "All lists are equally long.", given(_lists_of_the_first_length)),
    Mutant("OWN-109", _DECODE, "Positions do not advance.", with_arguments(positions=np.zeros_like)),
    Mutant("OWN-110", _DECODE, "Padding writes the last slot.", returning(_dump_slot_wraps)),
)
