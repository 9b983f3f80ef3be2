"""Structural rules of scheduled verification."""

from collections.abc import Callable
from typing import Any

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


def _positions_fit(sentence: str, counts: Callable[[Arguments], Any], needed: str, size: str) -> Rule:
    """Return the rule that committed positions and so many new ones fit into a size."""

    def find(arguments: Arguments, axes: Arguments) -> Fault | None:
        lengths = arguments["seq_lens"].astype(np.int64)
        place = first_place(lengths + counts(arguments) > axes[size])
        if place is None:
            return None
        return Fault(f"seq_lens{list(place)}", int(lengths[place]), needed.format(axes[size]))

    return Rule(sentence, Reason.ROW_TOO_SHORT, "a request row ends after the last position that is used", find)


def _committed(arguments: Arguments) -> NDArray[np.int64]:
    """Return how many rows of each request are injected."""
    counts = arguments["commit_lens"].astype(np.int64)
    gate = arguments["verify_lens"]
    return counts if gate is None else np.minimum(counts, gate)


def _read_of_map(arguments: Arguments) -> NDArray[np.int64]:
    """Return how many positions of each request are looked up: none where places go round a ring."""
    counts = _committed(arguments)
    return counts if arguments["ring_size"] == 0 else np.zeros_like(counts)


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
            lambda arguments: arguments["verify_lens"],
            "a length whose window ends at {}",
            "position",
        ),
    ),
    "pad_verify_lens_to_bucket": (_rows_fit("num_tokens", "num_tokens"),),
    "scatter_compact_to_strided": (_rows_fit("values.shape[0]", "token"),),
    "ragged_verify_metadata": (
        _positions_fit(
            "The positions that are verified lie in the page table.",
            lambda arguments: arguments["verify_lens"],
            "a length whose window ends at {}",
            "max_seq_len_k",
        ),
    ),
    "commit_inject_layout": (
        _positions_fit(
            "The committed positions lie in the row of `req_to_token`, unless they go round a ring.",
            _read_of_map,
            "a length whose committed rows end at {}",
            "position",
        ),
        _slots_have_a_place,
    ),
}
