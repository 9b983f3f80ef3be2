"""Faults in the windows of multi-layer drafts, and in the hidden states that wait for them."""

from collections.abc import Callable

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    mutants_by_operation,
    of_the_neighbour,
    returning,
    with_arguments,
)

_EARLIER = "earlier = forward_seq_lens[request] - length - 1"
_ENTRY = "hidden_states_pool[row, place + count] if after < 0 else hidden_states[start + after]"


def _moved(ids: str) -> Callable[[Function], Function]:
    """Inject another way to move the ids of a window to the front."""
    return edited(
        "for place in range(start, start + length - 1):\n    input_ids[place] = input_ids[place + 1]",
        f"input_ids[start : start + length] = {ids}",
    )


def _before_the_text(statement: str) -> Callable[[Function], Function]:
    return edited(_EARLIER, f"{_EARLIER}\nif earlier < 0:\n    {statement}")


def _block_of_eight(outputs: Named, arguments: Named) -> None:
    for start, count in zip(outputs["next_extend_start_loc"], outputs["next_extend_seq_lens"], strict=True):
        for name in ("next_input_ids", "next_positions", "next_out_cache_loc", "next_hidden_states"):
            outputs[name][start + 8 : start + count] = 0


_end_of_the_window = edited("num_committed[request]", "np.diff([*extend_start_loc, len(hidden_states)])[request]")
_one_early = edited("num_padding[request]", "min(num_padding[request] + 1, length)")
_one_late = with_arguments(draft_layer=lambda layer: max(layer - 1, 0))
_slot_one_late = edited("forward_seq_lens[request]", "min(forward_seq_lens[request] + 1, req_to_token.shape[1])")
_slot_of_the_end = _before_the_text("next_out_cache_loc[first] = req_to_token[row, -1:].sum()")
_what_the_row_has = _before_the_text("next_hidden_states[first] = hidden_states_pool[row, -(layer + 1)]")
_starts_of_before = edited("next_extend_start_loc[request] = first", "next_extend_start_loc[request] = start")
_front_not_grown = edited("next_hidden_states[first] = hidden_states_pool[row, -(layer + 1)]", "")
_last_left_out = with_arguments(num_committed=lambda counts: np.maximum(counts - 1, 0))
_short_commits_lost = edited("row == 0", 'row == 0 or num_committed[request] < axes["kept"]')
_read_before_the_start = edited(
    _ENTRY, "hidden_states[max(start + after, 0)] if len(hidden_states) else hidden_states_pool[row, place + count]"
)
_overwritten_as_it_is_read = edited('range(axes["kept"])', 'reversed(range(axes["kept"]))')
_ring = edited(
    'range(axes["kept"])',
    'range(count if axes["kept"] else 0)',
    f"entry = {_ENTRY}",
    "entry = hidden_states[start + place]",
    "hidden_states_pool[row, place]",
    'hidden_states_pool[row, place % axes["kept"]]',
)
_last_takes_the_first = _moved("np.roll(input_ids[start : start + length], -1)")
_below_zero = edited("max(positions[start] - 1, 0)", "positions[start] - 1")

MUTANTS = mutants_by_operation(
    rotate_input_ids=(
        ("OWN-1860", "The proposal always stands at the end.", with_arguments(select_index=None)),
        ("OWN-1861", "The last cell takes the first one's token.", _last_takes_the_first),
        ("OWN-1862", "Cells are stored before their neighbours are loaded.", _moved("input_ids[start + length - 1]")),
        ("OWN-1863", "A window of one token stays as it is.", edited("length == 0", "length <= 1")),
        ("OWN-1864", "The proposal is that of the request before.", of_the_neighbour("next_tokens")),
    ),
    assign_new_state=(
        ("OWN-1865", "The proposal stands after the padding.", with_arguments(num_padding=np.zeros_like)),
        ("OWN-1866", "The proposal overwrites the last token before it.", _one_early),
        ("OWN-1867", "The proposal is that of the request before.", of_the_neighbour("next_tokens")),
        ("OWN-1868", "Every layer takes the newest hidden state.", with_arguments(draft_layer=0)),
        ("OWN-1869", "The hidden state is one position late.", _one_late),
        ("OWN-1870", "The hidden states are read oldest first.", edited("-(layer + 1)", "layer")),
        ("OWN-1871", "Slot and hidden state are those of the request before.", of_the_neighbour("req_pool_indices")),
        ("OWN-1872", "The slot is one position late.", _slot_one_late),
        ("OWN-1873", "Before the text the slot is that of the row's end.", _slot_of_the_end),
        ("OWN-1874", "Before the text the hidden state is what the row has.", _what_the_row_has),
        ("OWN-1875", "Before the text the position is negative.", _below_zero),
        ("OWN-1876", "The block of a window has eight entries.", returning(_block_of_eight)),
        ("OWN-1877", "Windows start where they started before.", _starts_of_before),
        ("OWN-1878", "Windows are as long as before.", edited("length + 1", "length")),
        ("OWN-1879", "The hidden state in front is never there.", _front_not_grown),
    ),
    assign_hidden_states_pool=(
        ("OWN-1880", "What waits is the end of the window, rejected rows included.", _end_of_the_window),
        ("OWN-1881", "What waits is never replaced.", with_arguments(num_committed=np.zeros_like)),
        ("OWN-1882", "The last committed state is left out.", _last_left_out),
        ("OWN-1883", "A commit of less than is kept is lost.", _short_commits_lost),
        ("OWN-1884", "A short commit is filled up from before its start.", _read_before_the_start),
        ("OWN-1885", "Entries are overwritten before they are read.", _overwritten_as_it_is_read),
        ("OWN-1886", "The pool is a ring without a start.", _ring),
        ("OWN-1887", "The row is that of the request before.", of_the_neighbour("req_pool_indices")),
    ),
)
