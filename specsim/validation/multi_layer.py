"""Structural rules of multi-layer drafts."""

import numpy as np

from specsim.rejection import Reason
from specsim.validation.common import lengths_add_up
from specsim.validation.rule import Arguments, Fault, Rule, rule


def _segments_follow(lengths: str) -> Rule:
    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        starts, counts = arguments["extend_start_loc"].astype(np.int64), arguments[lengths].astype(np.int64)
        ends = np.append(starts[1:], axes["token"])
        for request in np.flatnonzero(starts + counts > ends)[:1]:
            most = max(int(ends[request] - starts[request]), 0)
            return Fault(f"{lengths}[{request}]", int(counts[request]), f"at most {most}")
        return None

    return Rule(
        f"`extend_start_loc[b] + {lengths}[b]` is at most `extend_start_loc[b+1]`, or the number of tokens.",
        Reason.INCONSISTENT_LENGTHS,
        "the tokens of a request follow those of the one before it",
        find,
    )


@rule(Reason.INCONSISTENT_LENGTHS, "a request writes into its own tokens")
def _selected_cells_are_own(arguments: Arguments, axes: Arguments) -> Fault | None:
    """`select_index[b]` is one of the tokens of request b, if it has any."""
    del axes
    chosen, starts, counts = (arguments[name] for name in ("select_index", "extend_start_loc", "extend_seq_lens"))
    if chosen is None:
        return None
    for request in np.flatnonzero((counts > 0) & ((chosen < starts) | (chosen >= starts + counts)))[:1]:
        first = int(starts[request])
        return Fault(f"select_index[{request}]", int(chosen[request]), f"{first} to {first + int(counts[request]) - 1}")
    return None


@rule(Reason.INCONSISTENT_LENGTHS, "what is padding is a part of the window")
def _padding_fits(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No request has more `num_padding` than `extend_seq_lens`."""
    del axes
    padding, counts = arguments["num_padding"], arguments["extend_seq_lens"]
    for request in np.flatnonzero(padding > counts)[:1]:
        return Fault(f"num_padding[{request}]", int(padding[request]), f"at most {int(counts[request])}")
    return None


@rule(Reason.DUPLICATE_ROW, "a row has one owner")
def _rows_are_distinct(arguments: Arguments, axes: Arguments) -> Fault | None:
    """No two requests have one row of `hidden_states_pool` but row 0, which pads."""
    del axes
    rows, counts = np.unique(arguments["req_pool_indices"], return_counts=True)
    repeated = rows[(counts > 1) & (rows > 0)]
    return Fault("req_pool_indices", int(repeated[0]), "distinct rows") if len(repeated) else None


RULES = {
    "rotate_input_ids": (_segments_follow("extend_seq_lens"), _selected_cells_are_own),
    "assign_new_state": (
        lengths_add_up(
            "`extend_seq_lens` add up to the length of `input_ids`.",
            lambda arguments: arguments["extend_seq_lens"],
            "token",
            "input_ids.shape[0]",
        ),
        _segments_follow("extend_seq_lens"),
        _padding_fits,
    ),
    "assign_hidden_states_pool": (_segments_follow("num_committed"), _rows_are_distinct),
}
