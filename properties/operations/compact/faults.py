"""Faults in bringing the accepted path to the front."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specsim.properties.mutants.edits import edited
from specsim.properties.mutants.record import (
    Function,
    Named,
    given,
    instead,
    mutants_by_operation,
    returning,
    with_arguments,
)
from specsim.properties.mutants.tables import front_of_the_window

Array = Any


def _through_single_precision(outputs: Named, arguments: Named) -> None:
    if arguments["values"].dtype == np.float64:
        outputs["compacted"] = outputs["compacted"].astype(np.float32).astype(np.float64)


def _sources_unpacked(accept_index: Array, out_cache_loc: Array) -> Array:
    flat = accept_index.reshape(-1)
    return np.array([out_cache_loc[node] if node >= 0 else 0 for node in flat], dtype=np.int64)


def _in_place(step: int) -> Callable[[Function], Function]:
    path = "accept_index[request][accept_index[request] >= 0]"
    return edited(
        "enumerate(accept_index[request])", f"[*enumerate({path})][::{step}]", "values[max(node, 0)]", "compacted[node]"
    )


def _without_snapshot(order: str) -> Callable[[Function], Function]:
    """Inject a move pair after pair, in some order."""
    return edited(
        "zip(target_slots, read, strict=True)",
        f"zip(target_slots[{order}], source_slots[{order}], strict=True)",
        "buffer[slot] = entry",
        "buffer[slot] = buffer[entry]",
    )


def _neighbours_too(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
    for buffer in kv_buffers:
        read, after = buffer[source_slots], np.minimum(source_slots + 1, len(buffer) - 1)
        spill = buffer[after]
        past = np.minimum(target_slots + 1, len(buffer) - 1)
        buffer[past] = spill
        buffer[target_slots] = read


def _first_elements(kv_buffers: Sequence[Array], target_slots: Array, source_slots: Array) -> None:
    for buffer in kv_buffers:
        read = buffer[source_slots]
        if buffer.ndim > 1:
            buffer[target_slots, ..., :1] = read[..., :1]
        else:
            buffer[target_slots] = read


def _no_pair_is_a_launch_of_one(arguments: Named) -> None:
    if not len(arguments["target_slots"]):
        arguments["target_slots"] = np.array([1], dtype=np.int64)
        arguments["source_slots"] = np.array([0], dtype=np.int64)


_first_rows_of_the_batch = edited("predict[node]", "predict[(accept_index[:request] >= 0).sum() + place]")
_read_by_place = edited("predict[node]", "predict[request * (len(predict) // len(accept_index)) + place]")
_another_stride = edited(
    "accept_tokens[request, num_accepted_tokens[request] - 1]",
    "np.roll(accept_tokens, -request)[request, num_accepted_tokens[request] - 1]",
)
_drafts_for_tokens = edited("num_accepted_tokens[request] - 1", "max(num_accepted_tokens[request] - 2, 0)")
_one_program_a_node = edited(
    "accept_index.reshape(-1)",
    "np.resize(accept_index, len(out_cache_loc))",
    "node >= 0",
    "node >= 0 and end < len(source_slots)",
)
_hidden_states_left_in_place = edited('range(axes["request"])', 'range(axes["request"] if values.ndim == 1 else 0)')
_ids_left_in_place = edited('range(axes["request"])', 'range(axes["request"] if values.ndim > 1 else 0)')
_one_row_a_request = edited(
    'compacted[request * axes["node"] + place] = values[max(node, 0)]',
    "if node >= 0 and request + place < len(compacted):\n    compacted[request + place] = values[node]",
)
_one_target_less = edited("num_accepted_tokens[request]", "num_accepted_tokens[request] - 1")
_in_any_order = _without_snapshot('np.argsort(np.arange(len(target_slots)) % 2, kind="stable")')

MUTANTS = mutants_by_operation(
    gather_accept_tokens=(
        ("OWN-62", "Sentinel -1 wraps to the last entry.", edited("node >= 0", "True")),
        ("PV08", "The first rows of the batch are taken, not each request's.", _first_rows_of_the_batch),
        ("OWN-63", "Entries are read by place, not by node.", _read_by_place),
    ),
    fill_bonus_tokens=(
        ("PV02", "Rows are read with another stride.", _another_stride),
        ("PV07", "The first output token is taken.", edited("num_accepted_tokens[request] - 1", "0")),
        ("OWN-64", "The last column is taken.", edited("num_accepted_tokens[request] - 1", "-1")),
        ("OWN-65", "The count of drafts is used as one of tokens.", _drafts_for_tokens),
    ),
    fill_accept_out_cache_loc=(
        ("PV01", "One program a tree node runs over the shorter rows of paths.", _one_program_a_node),
        ("PV13", "The path is taken for the front of the window.", with_arguments(accept_index=front_of_the_window)),
        ("OWN-66", "Sources keep their gaps.", instead(_sources_unpacked)),
    ),
    fill_accept_target_cache_loc=(
        ("OWN-67", "Drafts are counted, not tokens.", _one_target_less),
        ("OWN-68", "Windows are as wide as a path.", edited('axes["node"]', "path_width(num_steps)")),
    ),
    compact_accepted_to_front=(
        ("OWN-125", "Doubles pass through single precision.", returning(_through_single_precision)),
        ("PV04", "Hidden states stay where they were.", _hidden_states_left_in_place),
        ("OWN-69", "Ids stay where they were.", _ids_left_in_place),
        ("PV06", "Blocks of nodes are taken for one row a request.", _one_row_a_request),
        ("OWN-70", "Compaction goes backwards in place.", _in_place(-1)),
        ("OWN-395", "Compaction goes forwards in place, as ascending paths allow.", _in_place(1)),
    ),
    move_kv_cache=(
        ("PV03", "Nothing moves.", edited("kv_buffers", "kv_buffers[:0]")),
        ("SYN10", "Pairs are copied in any order, without a snapshot.", _in_any_order),
        ("SYN11", "Pairs are copied backwards, in place.", _without_snapshot("::-1")),
        ("OWN-71", "Pairs are copied forwards, in place.", _without_snapshot(":")),
        ("K10", "Only the first component of each layer moves.", edited("kv_buffers", "kv_buffers[::2]")),
        ("OWN-72", "Only the first layer moves.", edited("kv_buffers", "kv_buffers[:2]")),
        ("OWN-73", "The pool has a layer at least.", given(lambda arguments: arguments["kv_buffers"][0].shape)),
        ("OWN-74", "The slot after each target is written too.", instead(_neighbours_too)),
        ("OWN-75", "Only the first element of an entry moves.", instead(_first_elements)),
        ("OWN-76", "Without pairs one pair is moved.", given(_no_pair_is_a_launch_of_one)),
    ),
)
