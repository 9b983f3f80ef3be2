"""Structural rules of scheduled verification."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from specsim.rejection import Reason
from specsim.validation.common import bounds_the_sum, fault_in, first_place
from specsim.validation.rule import Arguments, Fault, Rule, rule


def _num_rows(arguments: Arguments, axes: Arguments) -> int:
    del axes
    return int(np.sum(arguments["verify_lens"], dtype=np.int64))


def _rows_fit(name: str, axis: str) -> Rule:
    return bounds_the_sum(
        name,
        axis,
        _num_rows,
        f"The rows of the forward are at least the sum of `verify_lens` (`{name}`).",
        "every row that is verified has a place in the forward",
    )


def _positions_fit(sentence: str, ends: Callable[[Arguments], NDArray[np.int64]], needed: str, size: str) -> Rule:
    """Return the rule that the positions which are used end within a size."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        place = first_place(ends(arguments) > axes[size])
        if place is None:
            return None
        return Fault(f"seq_lens{list(place)}", int(arguments["seq_lens"][place]), needed.format(axes[size]))

    return Rule(sentence, Reason.ROW_TOO_SHORT, "a request row ends after the last position that is used", find)


def _ends_of_windows(arguments: Arguments) -> NDArray[np.int64]:
    ends: NDArray[np.int64] = arguments["seq_lens"].astype(np.int64) + arguments["verify_lens"]
    return ends


def _committed(arguments: Arguments) -> NDArray[np.int64]:
    """Return how many rows of each request are injected."""
    counts = arguments["commit_lens"].astype(np.int64)
    gate = arguments["verify_lens"]
    capped: NDArray[np.int64] = counts if gate is None else np.minimum(counts, gate)
    return capped


def _ends_of_commits(arguments: Arguments) -> NDArray[np.int64]:
    """Return where the positions end that are looked up: none are in a ring, or of a request that commits nothing."""
    counts = _committed(arguments)
    is_read = (counts > 0) & (arguments["ring_size"] == 0)
    return np.where(is_read, arguments["seq_lens"].astype(np.int64) + counts, 0)


@rule(Reason.SLOT_OUT_OF_RANGE, "the map has an entry a slot")
def _slots_have_a_place(arguments: Arguments, axes: Arguments) -> Fault | None:
    """Slots of committed positions are inside `slot_map`, where there is one."""
    places = arguments["slot_map"]
    if places is None or arguments["ring_size"] > 0:
        return None
    slots = arguments["req_to_token"]
    for row, length, count in zip(
        arguments["req_pool_indices"], arguments["seq_lens"].tolist(), _committed(arguments).tolist(), strict=True
    ):
        read = slots[row, length : length + count]
        fault = fault_in(
            read, (read < 0) | (read >= len(places)), f"req_to_token[{row}, {length}:]", "a slot of the map"
        )
        if fault is not None:
            return fault
    return None


RULES = {
    "ragged_verify_window": (
        _rows_fit("num_tokens", "token"),
        _positions_fit(
            "The positions that are verified lie in the row of `req_to_token`.",
            _ends_of_windows,
            "a length whose window ends at {}",
            "position",
        ),
    ),
    "pad_verify_lens_to_bucket": (_rows_fit("num_tokens", "num_tokens"),),
    "scatter_compact_to_strided": (_rows_fit("values.shape[0]", "token"),),
    "ragged_verify_metadata": (
        _positions_fit(
            "The positions that are verified lie in the page table.",
            _ends_of_windows,
            "a length whose window ends at {}",
            "max_seq_len_k",
        ),
    ),
    "commit_inject_layout": (
        _positions_fit(
            "The committed positions lie in the row of `req_to_token`, unless they go round a ring.",
            _ends_of_commits,
            "a length whose committed rows end at {}",
            "position",
        ),
        _slots_have_a_place,
    ),
}
