"""Faults in the windows of multi-layer drafts, and in the hidden states that wait for them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specsim.properties.mutants.record import (
    Function,
    Named,
    given,
    instead,
    mutants_of,
    of_the_neighbour,
    returning,
    with_arguments,
)

Array = Any


def _spans(starts: Array, lengths: Array) -> list[slice]:
    return [slice(int(start), int(start + count)) for start, count in zip(starts, lengths, strict=True)]


def _own_place_lost(
    input_ids: Array, extend_start_loc: Array, extend_seq_lens: Array, next_tokens: Array, select_index: Array | None
) -> None:
    for request, span in enumerate(_spans(extend_start_loc, extend_seq_lens)):
        ids = input_ids[span]
        if len(ids):
            ids[:] = np.roll(ids, -1)
            ids[-1 if select_index is None else int(select_index[request]) - span.start] = next_tokens[request]


def _stored_before_it_was_loaded(
    input_ids: Array, extend_start_loc: Array, extend_seq_lens: Array, next_tokens: Array, select_index: Array | None
) -> None:
    for request, span in enumerate(_spans(extend_start_loc, extend_seq_lens)):
        ids = input_ids[span]
        if len(ids):
            ids[:] = ids[-1]
            ids[-1 if select_index is None else int(select_index[request]) - span.start] = next_tokens[request]


def _single_token_kept(
    input_ids: Array, extend_start_loc: Array, extend_seq_lens: Array, next_tokens: Array, select_index: Array | None
) -> None:
    for request, span in enumerate(_spans(extend_start_loc, extend_seq_lens)):
        ids = input_ids[span]
        if len(ids) > 1:
            ids[:-1] = ids[1:].copy()
            ids[-1 if select_index is None else int(select_index[request]) - span.start] = next_tokens[request]


def _proposal_one_early(arguments: Named) -> None:
    padding = arguments["num_padding"]
    arguments["num_padding"] = np.minimum(padding + 1, arguments["extend_seq_lens"]).astype(padding.dtype)


def _hidden_state_one_late(arguments: Named) -> None:
    arguments["draft_layer"] = max(arguments["draft_layer"] - 1, 0)


def _oldest_hidden_state(arguments: Named) -> None:
    arguments["draft_layer"] = arguments["hidden_states_pool"].shape[1] - 1 - arguments["draft_layer"]


def _slot_one_late(arguments: Named) -> None:
    width = arguments["req_to_token"].shape[1]
    arguments["forward_seq_lens"] = np.minimum(arguments["forward_seq_lens"] + 1, width)


def _fronts(outputs: Named, arguments: Named) -> Array:
    """Return where the windows begin that would begin before their text."""
    is_front = arguments["forward_seq_lens"] <= arguments["extend_seq_lens"]
    return outputs["next_extend_start_loc"][is_front], arguments["req_pool_indices"][is_front]


def _slot_wrapped_around(outputs: Named, arguments: Named) -> None:
    places, rows = _fronts(outputs, arguments)
    if arguments["req_to_token"].shape[1]:
        outputs["next_out_cache_loc"][places] = arguments["req_to_token"][rows, -1]


def _hidden_state_before_the_text(outputs: Named, arguments: Named) -> None:
    places, rows = _fronts(outputs, arguments)
    pool = arguments["hidden_states_pool"]
    outputs["next_hidden_states"][places] = pool[rows, pool.shape[1] - 1 - arguments["draft_layer"]]


def _position_before_the_text(outputs: Named, arguments: Named) -> None:
    first = arguments["positions"][arguments["extend_start_loc"]] - 1
    outputs["next_positions"][outputs["next_extend_start_loc"]] = first


def _block_of_eight(outputs: Named, arguments: Named) -> None:
    for start, count in zip(outputs["next_extend_start_loc"], outputs["next_extend_seq_lens"], strict=True):
        for name in ("next_input_ids", "next_positions", "next_out_cache_loc", "next_hidden_states"):
            outputs[name][start + 8 : start + count] = 0


def _starts_of_before(outputs: Named, arguments: Named) -> None:
    outputs["next_extend_start_loc"] = arguments["extend_start_loc"].copy()


def _width_of_before(outputs: Named, arguments: Named) -> None:
    outputs["next_extend_seq_lens"] = arguments["extend_seq_lens"].copy()


def _front_not_grown(outputs: Named, arguments: Named) -> None:
    outputs["next_hidden_states"][outputs["next_extend_start_loc"]] = 0


def _end_of_the_window(arguments: Named) -> None:
    starts = arguments["extend_start_loc"]
    ends = np.append(starts[1:], len(arguments["hidden_states"]))
    arguments["num_committed"] = (ends - starts).astype(np.int32)


def _one_too_few(arguments: Named) -> None:
    arguments["num_committed"] = np.maximum(arguments["num_committed"] - 1, 0)


def _short_commits_lost(arguments: Named) -> None:
    counts, num_kept = arguments["num_committed"], arguments["hidden_states_pool"].shape[1]
    arguments["num_committed"] = np.where(counts < num_kept, 0, counts).astype(np.int32)


def _keeping(write: Callable[[Array, Array, slice], None]) -> Callable[[Function], Function]:
    """Inject another way to write what a row keeps; ``write`` takes that, all hidden states, and the row's own ones."""

    def keep(**arguments: Any) -> None:
        pool, states = arguments["hidden_states_pool"], arguments["hidden_states"]
        spans = _spans(arguments["extend_start_loc"], arguments["num_committed"])
        for row, span in zip(arguments["req_pool_indices"], spans, strict=True):
            if row and pool.shape[1]:
                write(pool[row], states, span)

    return instead(keep)


def _read_before_the_start(kept: Array, states: Array, own: slice) -> None:
    for place in range(len(kept) if len(states) else 0):
        kept[place] = states[max(own.stop - len(kept) + place, 0)]


def _overwritten_as_it_is_read(kept: Array, states: Array, own: slice) -> None:
    count = own.stop - own.start
    for place in reversed(range(len(kept))):
        after = place + count - len(kept)
        kept[place] = kept[place + count] if after < 0 else states[own.start + after]


def _ring(kept: Array, states: Array, own: slice) -> None:
    for place, hidden in enumerate(states[own]):
        kept[place % len(kept)] = hidden


_ROTATE, _GROW, _KEEP = "rotate_input_ids", "assign_new_state", "assign_hidden_states_pool"

MUTANTS = (
    *mutants_of(
        _ROTATE,
        ("OWN-1860", "The proposal always stands at the end.", with_arguments(select_index=None)),
        ("OWN-1861", "The last cell takes the first one's token.", instead(_own_place_lost)),
        ("OWN-1862", "Cells are stored before their neighbours are loaded.", instead(_stored_before_it_was_loaded)),
        ("OWN-1863", "A window of one token stays as it is.", instead(_single_token_kept)),
        ("OWN-1864", "The proposal is that of the request before.", of_the_neighbour("next_tokens")),
    ),
    *mutants_of(
        _GROW,
        ("OWN-1865", "The proposal stands after the padding.", with_arguments(num_padding=np.zeros_like)),
        ("OWN-1866", "The proposal overwrites the last token before it.", given(_proposal_one_early)),
        ("OWN-1867", "The proposal is that of the request before.", of_the_neighbour("next_tokens")),
        ("OWN-1868", "Every layer takes the newest hidden state.", with_arguments(draft_layer=0)),
        ("OWN-1869", "The hidden state is one position late.", given(_hidden_state_one_late)),
        ("OWN-1870", "The hidden states are read oldest first.", given(_oldest_hidden_state)),
        ("OWN-1871", "Slot and hidden state are those of the request before.", of_the_neighbour("req_pool_indices")),
        ("OWN-1872", "The slot is one position late.", given(_slot_one_late)),
        ("OWN-1873", "Before the text the slot is that of the row's end.", returning(_slot_wrapped_around)),
        ("OWN-1874", "Before the text the hidden state is what the row has.", returning(_hidden_state_before_the_text)),
        ("OWN-1875", "Before the text the position is negative.", returning(_position_before_the_text)),
        ("OWN-1876", "The block of a window has eight entries.", returning(_block_of_eight)),
        ("OWN-1877", "Windows start where they started before.", returning(_starts_of_before)),
        ("OWN-1878", "Windows are as long as before.", returning(_width_of_before)),
        ("OWN-1879", "The hidden state in front is never there.", returning(_front_not_grown)),
    ),
    *mutants_of(
        _KEEP,
        ("OWN-1880", "What waits is the end of the window, rejected rows included.", given(_end_of_the_window)),
        ("OWN-1881", "What waits is never replaced.", with_arguments(num_committed=np.zeros_like)),
        ("OWN-1882", "The last committed state is left out.", given(_one_too_few)),
        ("OWN-1883", "A commit of less than is kept is lost.", given(_short_commits_lost)),
        ("OWN-1884", "A short commit is filled up from before its start.", _keeping(_read_before_the_start)),
        ("OWN-1885", "Entries are overwritten before they are read.", _keeping(_overwritten_as_it_is_read)),
        ("OWN-1886", "The pool is a ring without a start.", _keeping(_ring)),
        ("OWN-1887", "The row is that of the request before.", of_the_neighbour("req_pool_indices")),
    ),
)
